; T4, schedule invariance: any number of regions, operations and skeletons
; As t4-invariance.smt2. Places in a rank's list, deletion and certificates for lists of any length; gates for
; chains of any length.
; Written by generate.py.
(set-info :status unsat)
(set-logic UFLIA)
; the operations of any number of skeletons: a rank, a place in its list, a time; which of them a freezing keeps
(declare-sort Op 0)
(declare-fun rank (Op) Int)
(declare-fun place (Op) Int)
(declare-fun time (Op) Int)
(declare-fun present (Op) Bool)
(declare-fun needs (Op Op) Bool)
(define-fun waits ((a Op) (b Op)) Bool (or (and (= (rank a) (rank b)) (< (place a) (place b))) (needs b a)))
; the number of operations that stay among the first n of one rank's list
(declare-fun there (Int) Bool)
(declare-fun kept (Int) Int)
(declare-const m Int)
(declare-const n Int)
(define-fun counted ((i Int)) Bool (= (kept (+ i 1)) (+ (kept i) (ite (there i) 1 0))))
(declare-fun present_layer (Int) Bool)
(declare-fun trained (Int) Bool)
(define-fun some ((n Int)) Bool (exists ((j Int)) (and (<= 1 j) (<= j n) (present_layer j) (trained j))))

; deleting moves nothing: for there(m) and m < n, kept(m) < kept(n), by induction over n: n = m + 1
(push 1)
(assert (and (there m) (counted m)))
(assert (not (< (kept m) (kept (+ m 1)))))
(check-sat)
(pop 1)

; from n to n + 1
(push 1)
(assert (and (< m n) (counted n) (< (kept m) (kept n))))
(assert (not (< (kept m) (kept (+ n 1)))))
(check-sat)
(pop 1)

; what deletes and does not move has no wait that the fully trained program lacks: its certificate holds for what is left
(push 1)
(assert (forall ((a Op) (b Op)) (! (=> (waits a b) (< (time a) (time b))) :pattern ((time a) (time b)))))
(declare-fun new_place (Op) Int)
(assert (forall ((a Op) (b Op)) (! (=> (and (present a) (present b) (= (rank a) (rank b))) (= (< (new_place a) (new_place b)) (< (place a) (place b)))) :pattern ((new_place a) (new_place b)))))
(declare-const a Op)
(declare-const b Op)
(assert (and (present a) (present b)))
(assert (or (and (= (rank a) (rank b)) (< (new_place a) (new_place b))) (needs b a)))
(assert (not (< (time a) (time b))))
(check-sat)
(pop 1)

; nothing present needs what is absent: the gates of a stage that ends with layer n, and of one that ends later, with layer m
(push 1)
(assert (and (<= 0 n) (<= n m)))
(declare-const j Int)
(assert (and (<= 1 j) (<= j n) (present_layer j) (trained j)))
(assert (not (exists ((i Int)) (and (<= 1 i) (<= i m) (present_layer i) (trained i)))))
(check-sat)
(pop 1)

; freezing more opens no gate
(push 1)
(declare-fun frozen (Int) Bool)
(declare-const j Int)
(assert (and (<= 1 j) (<= j n) (present_layer j) (trained j) (not (frozen j))))
(assert (not (some n)))
(check-sat)
(pop 1)
