; T3, backward footprint: any number of layers and stages
; As t3-footprint.smt2, by induction over the layers: wanted(0) = false, wanted(n+1) = (present and
; trained)(n+1) or wanted(n). A stage is any interval of layers with one that is present, so this covers every
; cut and every refinement of it.
; Written by generate.py.
(set-info :status unsat)
(set-logic UFLIA)
(declare-fun present (Int) Bool)
(declare-fun trained (Int) Bool)
; the gradient of the output of layer l is wanted; layer 0 are the data
(declare-fun wanted (Int) Bool)
; the layers 1..n hold one that is present and trained
(define-fun some ((n Int)) Bool (exists ((j Int)) (and (<= 1 j) (<= j n) (present j) (trained j))))

; wanted(n) = some(n) for every n >= 0, by induction: n = 0
(push 1)
(assert (not (wanted 0)))
(assert (not (= (wanted 0) (some 0))))
(check-sat)
(pop 1)

; from n to n + 1
(push 1)
(declare-const n Int)
(assert (<= 0 n))
(assert (= (wanted (+ n 1)) (or (and (present (+ n 1)) (trained (+ n 1))) (wanted n))))
(assert (= (wanted n) (some n)))
(assert (not (= (wanted (+ n 1)) (some (+ n 1)))))
(check-sat)
(pop 1)

; (i): what crosses the left border is the gradient of the output of layer a
(push 1)
; a stage of the layers a+1..b, one of them, l, present; `last` is the last that is
(declare-const a Int)
(declare-const b Int)
(declare-const l Int)
(declare-const last Int)
(assert (and (<= 0 a) (< a l) (<= l last) (<= last b) (present l) (present last)))
(assert (forall ((j Int)) (=> (and (< last j) (<= j b)) (not (present j)))))
(assert (forall ((n Int)) (! (=> (<= 0 n) (= (wanted n) (some n))) :pattern ((wanted n)))))
(assert (not (= (wanted a) (some a))))
(check-sat)
(pop 1)

; (ii): if a half of a layer of the stage runs, a layer at or before its end is trained
(push 1)
; a stage of the layers a+1..b, one of them, l, present; `last` is the last that is
(declare-const a Int)
(declare-const b Int)
(declare-const l Int)
(declare-const last Int)
(assert (and (<= 0 a) (< a l) (<= l last) (<= last b) (present l) (present last)))
(assert (forall ((j Int)) (=> (and (< last j) (<= j b)) (not (present j)))))
(assert (forall ((n Int)) (! (=> (<= 0 n) (= (wanted n) (some n))) :pattern ((wanted n)))))
(assert (exists ((j Int)) (and (< a j) (<= j b) (present j) (or (wanted (- j 1)) (trained j)))))
(assert (not (some b)))
(check-sat)
(pop 1)

; (ii): and the reverse, with the trained layer j before the stage or in it
(push 1)
; a stage of the layers a+1..b, one of them, l, present; `last` is the last that is
(declare-const a Int)
(declare-const b Int)
(declare-const l Int)
(declare-const last Int)
(assert (and (<= 0 a) (< a l) (<= l last) (<= last b) (present l) (present last)))
(assert (forall ((j Int)) (=> (and (< last j) (<= j b)) (not (present j)))))
(assert (forall ((n Int)) (! (=> (<= 0 n) (= (wanted n) (some n))) :pattern ((wanted n)))))
(declare-const j Int)
(assert (and (<= 1 j) (<= j b) (present j) (trained j)))
(assert (not (ite (<= j a) (and (present l) (wanted (- l 1))) (and (< a j) (<= j b) (present j) (trained j)))))
(check-sat)
(pop 1)

; (ii): the input half of the last layer that is present runs iff a layer before it is trained
(push 1)
; a stage of the layers a+1..b, one of them, l, present; `last` is the last that is
(declare-const a Int)
(declare-const b Int)
(declare-const l Int)
(declare-const last Int)
(assert (and (<= 0 a) (< a l) (<= l last) (<= last b) (present l) (present last)))
(assert (forall ((j Int)) (=> (and (< last j) (<= j b)) (not (present j)))))
(assert (forall ((n Int)) (! (=> (<= 0 n) (= (wanted n) (some n))) :pattern ((wanted n)))))
(assert (not (= (wanted (- last 1)) (some (- last 1)))))
(check-sat)
(pop 1)

; (iii): the weight half works iff the stage owns a trained layer, j; the gradient that it needs is wanted, and the stage runs a backward
(push 1)
; a stage of the layers a+1..b, one of them, l, present; `last` is the last that is
(declare-const a Int)
(declare-const b Int)
(declare-const l Int)
(declare-const last Int)
(assert (and (<= 0 a) (< a l) (<= l last) (<= last b) (present l) (present last)))
(assert (forall ((j Int)) (=> (and (< last j) (<= j b)) (not (present j)))))
(assert (forall ((n Int)) (! (=> (<= 0 n) (= (wanted n) (some n))) :pattern ((wanted n)))))
(declare-const j Int)
(assert (and (< a j) (<= j b) (present j) (trained j)))
(assert (not (and (wanted j) (wanted b))))
(check-sat)
(pop 1)

; both ends of a border give one answer: recv(s) = back(s) asks the layers up to b, send(next) = cross(next) those up to c, and those between are absent
(push 1)
; a stage of the layers a+1..b, one of them, l, present; `last` is the last that is
(declare-const a Int)
(declare-const b Int)
(declare-const l Int)
(declare-const last Int)
(assert (and (<= 0 a) (< a l) (<= l last) (<= last b) (present l) (present last)))
(assert (forall ((j Int)) (=> (and (< last j) (<= j b)) (not (present j)))))
(assert (forall ((n Int)) (! (=> (<= 0 n) (= (wanted n) (some n))) :pattern ((wanted n)))))
(declare-const c Int)
(assert (<= b c))
(assert (forall ((j Int)) (=> (and (< b j) (<= j c)) (not (present j)))))
(assert (not (= (some b) (some c))))
(check-sat)
(pop 1)
