; T3, T4, refinement: any number of regions, of any number of slabs or layers
; As t3-refinement.smt2: cross(0) = false, cross(r+1) = cross(r) or region r owns a trained layer, against the
; chain of layers. The lemma of t3-footprint-any.smt2, wanted(n) = some(n), is assumed.
; Written by generate.py.
(set-info :status unsat)
(set-logic UFLIA)
(declare-fun present (Int) Bool)
(declare-fun trained (Int) Bool)
; the gradient of the output of layer l is wanted; layer 0 are the data
(declare-fun wanted (Int) Bool)
; the layers 1..n hold one that is present and trained
(define-fun some ((n Int)) Bool (exists ((j Int)) (and (<= 1 j) (<= j n) (present j) (trained j))))
; region r are the layers start(r)+1 .. start(r+1)
(declare-fun start (Int) Int)
; the gradient crosses the left border of region r: as seen from regions alone
(declare-fun cross (Int) Bool)
(define-fun owns ((r Int)) Bool (exists ((j Int)) (and (< (start r) j) (<= j (start (+ r 1))) (present j) (trained j))))

; cross(r) = wanted(start(r)) for every r >= 0, by induction: r = 0
(push 1)
(assert (not (wanted 0)))
(assert (= (start 0) 0))
(assert (not (cross 0)))
(assert (not (= (cross 0) (wanted (start 0)))))
(check-sat)
(pop 1)

; from r to r + 1: if it crosses for regions, it does for layers
(push 1)
(declare-const r Int)
(assert (<= 0 r))
(assert (<= 0 (start r) (start (+ r 1))))
(assert (forall ((n Int)) (! (=> (<= 0 n) (= (wanted n) (some n))) :pattern ((wanted n)))))
(assert (= (cross (+ r 1)) (or (cross r) (owns r))))
(assert (= (cross r) (wanted (start r))))
(assert (cross (+ r 1)))
(assert (not (some (start (+ r 1)))))
(check-sat)
(pop 1)

; and the reverse, with the trained layer j before the region or in it
(push 1)
(declare-const r Int)
(assert (<= 0 r))
(assert (<= 0 (start r) (start (+ r 1))))
(assert (forall ((n Int)) (! (=> (<= 0 n) (= (wanted n) (some n))) :pattern ((wanted n)))))
(assert (= (cross (+ r 1)) (or (cross r) (owns r))))
(assert (= (cross r) (wanted (start r))))
(declare-const j Int)
(assert (and (<= 1 j) (<= j (start (+ r 1))) (present j) (trained j)))
(assert (not (ite (<= j (start r)) (some (start r)) (owns r))))
(check-sat)
(pop 1)
