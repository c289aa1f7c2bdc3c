; T8, transpose with hand-overs as a prefix: every owner map, any P and M, before any valid backbone
; The owner map is an uninterpreted function. A hand-over is one event of its two ranks and each rank does
; everything in its order: the waits of `blocking`, which contain those of the other models. All of them go
; forward in times that are the same for every owner map; so none of these programs waits in a cycle.
; Written by generate.py.
(set-info :status unsat)
(set-logic UFLIA)
; ranks 0..P-1, microbatches 0..M-1 in the order in which the first stage after the region runs their forwards; `turn` is that of its input
; gradients. first: the rank of that stage. Any map from microbatches to ranks
(declare-const P Int)
(declare-const M Int)
(declare-const first Int)
(declare-fun owner (Int) Int)
(declare-fun turn (Int) Int)
; the backbone: times from 0 to T - 1 that are a certificate of it alone
(declare-sort Event 0)
(declare-fun time (Event) Int)
(declare-fun waits (Event Event) Bool)
(declare-fun rank (Event) Int)
(declare-const T Int)
(assert (and (<= 1 P) (<= 1 M) (<= 0 first) (< first P) (<= 0 T)))
(assert (forall ((m Int)) (! (and (<= 0 (owner m)) (< (owner m) P)) :pattern ((owner m)))))
(assert (forall ((m Int)) (! (=> (and (<= 0 m) (< m M)) (and (<= 0 (turn m)) (< (turn m) M))) :pattern ((turn m)))))
(assert (forall ((e Event)) (! (and (<= 0 (time e)) (< (time e) T)) :pattern ((time e)))))
(assert (forall ((d Event) (e Event)) (! (=> (waits d e) (< (time d) (time e))) :pattern ((waits d e)))))
; times that do not ask who owns what: encodes, hand-overs, the backbone, gradients handed back, the region's backwards
(define-fun encode ((m Int)) Int m)
(define-fun hand_over ((m Int)) Int (+ M m))
(define-fun later ((e Event)) Int (+ (* 2 M) (time e)))
(define-fun hand_back ((m Int)) Int (+ (* 2 M) T (turn m)))
(define-fun decode ((m Int)) Int (+ (* 3 M) T (turn m)))
; a hand-over takes part on its owner and on the first stage's rank, unless they are one: then there is none
(define-fun away ((m Int)) Bool (distinct (owner m) first))
(define-fun on ((m Int) (r Int)) Bool (or (= (owner m) r) (= first r)))
(declare-const m Int)
(declare-const n Int)
(declare-const r Int)
(declare-const e Event)
(declare-const d Event)
(assert (and (<= 0 m) (< m M) (<= 0 n) (< n M) (<= 0 r) (< r P)))

; an owner encodes in that order
(push 1)
(assert (< m n))
(assert (and (= (owner m) r) (= (owner n) r)))
(assert (not (< (encode m) (encode n))))
(check-sat)
(pop 1)

; then it hands over: every encode of a rank comes before every hand-over it takes part in
(push 1)
(assert (and (= (owner m) r) (away n) (on n r)))
(assert (not (< (encode m) (hand_over n))))
(check-sat)
(pop 1)

; a rank's hand-overs stand in the same order at both of their ends
(push 1)
(assert (< m n))
(assert (and (away m) (away n) (on m r) (on n r)))
(assert (not (< (hand_over m) (hand_over n))))
(check-sat)
(pop 1)

; the backbone comes after the rank's encodes and hand-overs, and after what it consumes
(push 1)
(assert (= (rank e) r))
(assert (on m r))
(assert (not (and (< (encode m) (later e)) (< (hand_over m) (later e)))))
(check-sat)
(pop 1)

; its own waits are those it had
(push 1)
(assert (waits d e))
(assert (not (< (later d) (later e))))
(check-sat)
(pop 1)

; gradients go back after the rank's part of the backbone, and after what makes them
(push 1)
(assert (= (rank e) r))
(assert (on m r))
(assert (not (and (< (later e) (hand_back m)) (< (later e) (decode m)))))
(check-sat)
(pop 1)

; a rank hands back in the order of the input gradients at both ends
(push 1)
(assert (< (turn m) (turn n)))
(assert (and (away m) (away n) (on m r) (on n r)))
(assert (not (< (hand_back m) (hand_back n))))
(check-sat)
(pop 1)

; every hand-back of a rank comes before every backward of the region on it
(push 1)
(assert (and (away m) (on m r) (= (owner n) r)))
(assert (not (< (hand_back m) (decode n))))
(check-sat)
(pop 1)

; an owner runs the backwards in that order
(push 1)
(assert (< (turn m) (turn n)))
(assert (and (= (owner m) r) (= (owner n) r)))
(assert (not (< (decode m) (decode n))))
(check-sat)
(pop 1)

; a backward of the region comes after its forward and its hand-over
(push 1)
(assert (not (and (< (encode m) (decode m)) (< (hand_over m) (decode m)))))
(check-sat)
(pop 1)
