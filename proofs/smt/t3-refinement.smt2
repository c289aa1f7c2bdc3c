; T3, T4, refinement: up to 12 regions of three slabs
; Splitting a region into slabs changes no answer at a seam: the gradient crosses the border between two
; regions iff it crosses it in the chain of their slabs. And recv(s) = send(s+1): the stage that receives asks
; for a trained layer at or before its end, the one that sends for one before it.
; Written by generate.py.
(set-info :status unsat)
(set-logic QF_UF)
(define-fun cross.1 () Bool false)
(define-fun slab.1 () Bool false)

; region 1, and its slabs a, b, c
(declare-const trained.1a Bool)
(declare-const trained.1b Bool)
(declare-const trained.1c Bool)
(define-fun cross.2 () Bool (or cross.1 trained.1a trained.1b trained.1c))
(define-fun slab.1a () Bool (or slab.1 trained.1a))
(define-fun slab.1b () Bool (or slab.1a trained.1b))
(define-fun slab.2 () Bool (or slab.1b trained.1c))
(define-fun recv.1 () Bool (or cross.1 trained.1a trained.1b trained.1c))

; region 2, and its slabs a, b, c
(declare-const trained.2a Bool)
(declare-const trained.2b Bool)
(declare-const trained.2c Bool)
(define-fun cross.3 () Bool (or cross.2 trained.2a trained.2b trained.2c))
(define-fun slab.2a () Bool (or slab.2 trained.2a))
(define-fun slab.2b () Bool (or slab.2a trained.2b))
(define-fun slab.3 () Bool (or slab.2b trained.2c))
(define-fun recv.2 () Bool (or cross.2 trained.2a trained.2b trained.2c))

; region 3, and its slabs a, b, c
(declare-const trained.3a Bool)
(declare-const trained.3b Bool)
(declare-const trained.3c Bool)
(define-fun cross.4 () Bool (or cross.3 trained.3a trained.3b trained.3c))
(define-fun slab.3a () Bool (or slab.3 trained.3a))
(define-fun slab.3b () Bool (or slab.3a trained.3b))
(define-fun slab.4 () Bool (or slab.3b trained.3c))
(define-fun recv.3 () Bool (or cross.3 trained.3a trained.3b trained.3c))

; region 4, and its slabs a, b, c
(declare-const trained.4a Bool)
(declare-const trained.4b Bool)
(declare-const trained.4c Bool)
(define-fun cross.5 () Bool (or cross.4 trained.4a trained.4b trained.4c))
(define-fun slab.4a () Bool (or slab.4 trained.4a))
(define-fun slab.4b () Bool (or slab.4a trained.4b))
(define-fun slab.5 () Bool (or slab.4b trained.4c))
(define-fun recv.4 () Bool (or cross.4 trained.4a trained.4b trained.4c))

; region 5, and its slabs a, b, c
(declare-const trained.5a Bool)
(declare-const trained.5b Bool)
(declare-const trained.5c Bool)
(define-fun cross.6 () Bool (or cross.5 trained.5a trained.5b trained.5c))
(define-fun slab.5a () Bool (or slab.5 trained.5a))
(define-fun slab.5b () Bool (or slab.5a trained.5b))
(define-fun slab.6 () Bool (or slab.5b trained.5c))
(define-fun recv.5 () Bool (or cross.5 trained.5a trained.5b trained.5c))

; region 6, and its slabs a, b, c
(declare-const trained.6a Bool)
(declare-const trained.6b Bool)
(declare-const trained.6c Bool)
(define-fun cross.7 () Bool (or cross.6 trained.6a trained.6b trained.6c))
(define-fun slab.6a () Bool (or slab.6 trained.6a))
(define-fun slab.6b () Bool (or slab.6a trained.6b))
(define-fun slab.7 () Bool (or slab.6b trained.6c))
(define-fun recv.6 () Bool (or cross.6 trained.6a trained.6b trained.6c))

; region 7, and its slabs a, b, c
(declare-const trained.7a Bool)
(declare-const trained.7b Bool)
(declare-const trained.7c Bool)
(define-fun cross.8 () Bool (or cross.7 trained.7a trained.7b trained.7c))
(define-fun slab.7a () Bool (or slab.7 trained.7a))
(define-fun slab.7b () Bool (or slab.7a trained.7b))
(define-fun slab.8 () Bool (or slab.7b trained.7c))
(define-fun recv.7 () Bool (or cross.7 trained.7a trained.7b trained.7c))

; region 8, and its slabs a, b, c
(declare-const trained.8a Bool)
(declare-const trained.8b Bool)
(declare-const trained.8c Bool)
(define-fun cross.9 () Bool (or cross.8 trained.8a trained.8b trained.8c))
(define-fun slab.8a () Bool (or slab.8 trained.8a))
(define-fun slab.8b () Bool (or slab.8a trained.8b))
(define-fun slab.9 () Bool (or slab.8b trained.8c))
(define-fun recv.8 () Bool (or cross.8 trained.8a trained.8b trained.8c))

; region 9, and its slabs a, b, c
(declare-const trained.9a Bool)
(declare-const trained.9b Bool)
(declare-const trained.9c Bool)
(define-fun cross.10 () Bool (or cross.9 trained.9a trained.9b trained.9c))
(define-fun slab.9a () Bool (or slab.9 trained.9a))
(define-fun slab.9b () Bool (or slab.9a trained.9b))
(define-fun slab.10 () Bool (or slab.9b trained.9c))
(define-fun recv.9 () Bool (or cross.9 trained.9a trained.9b trained.9c))

; region 10, and its slabs a, b, c
(declare-const trained.10a Bool)
(declare-const trained.10b Bool)
(declare-const trained.10c Bool)
(define-fun cross.11 () Bool (or cross.10 trained.10a trained.10b trained.10c))
(define-fun slab.10a () Bool (or slab.10 trained.10a))
(define-fun slab.10b () Bool (or slab.10a trained.10b))
(define-fun slab.11 () Bool (or slab.10b trained.10c))
(define-fun recv.10 () Bool (or cross.10 trained.10a trained.10b trained.10c))

; region 11, and its slabs a, b, c
(declare-const trained.11a Bool)
(declare-const trained.11b Bool)
(declare-const trained.11c Bool)
(define-fun cross.12 () Bool (or cross.11 trained.11a trained.11b trained.11c))
(define-fun slab.11a () Bool (or slab.11 trained.11a))
(define-fun slab.11b () Bool (or slab.11a trained.11b))
(define-fun slab.12 () Bool (or slab.11b trained.11c))
(define-fun recv.11 () Bool (or cross.11 trained.11a trained.11b trained.11c))

; region 12, and its slabs a, b, c
(declare-const trained.12a Bool)
(declare-const trained.12b Bool)
(declare-const trained.12c Bool)
(define-fun cross.13 () Bool (or cross.12 trained.12a trained.12b trained.12c))
(define-fun slab.12a () Bool (or slab.12 trained.12a))
(define-fun slab.12b () Bool (or slab.12a trained.12b))
(define-fun slab.13 () Bool (or slab.12b trained.12c))
(define-fun recv.12 () Bool (or cross.12 trained.12a trained.12b trained.12c))

; 1 region
(push 1)
(assert (not (= cross.1 slab.1)))
(check-sat)
(pop 1)

; 2 regions
(push 1)
(assert (not (and (= cross.1 slab.1) (= cross.2 slab.2) (= recv.1 cross.2))))
(check-sat)
(pop 1)

; 3 regions
(push 1)
(assert (not (and (= cross.1 slab.1) (= cross.2 slab.2) (= cross.3 slab.3) (= recv.1 cross.2) (= recv.2 cross.3))))
(check-sat)
(pop 1)

; 4 regions
(push 1)
(assert (not (and (= cross.1 slab.1) (= cross.2 slab.2) (= cross.3 slab.3) (= cross.4 slab.4) (= recv.1 cross.2) (= recv.2 cross.3) (= recv.3 cross.4))))
(check-sat)
(pop 1)

; 5 regions
(push 1)
(assert (not (and (= cross.1 slab.1) (= cross.2 slab.2) (= cross.3 slab.3) (= cross.4 slab.4) (= cross.5 slab.5) (= recv.1 cross.2) (= recv.2 cross.3) (= recv.3 cross.4) (= recv.4 cross.5))))
(check-sat)
(pop 1)

; 6 regions
(push 1)
(assert (not (and (= cross.1 slab.1) (= cross.2 slab.2) (= cross.3 slab.3) (= cross.4 slab.4) (= cross.5 slab.5) (= cross.6 slab.6) (= recv.1 cross.2) (= recv.2 cross.3) (= recv.3 cross.4) (= recv.4 cross.5) (= recv.5 cross.6))))
(check-sat)
(pop 1)

; 7 regions
(push 1)
(assert (not (and (= cross.1 slab.1) (= cross.2 slab.2) (= cross.3 slab.3) (= cross.4 slab.4) (= cross.5 slab.5) (= cross.6 slab.6) (= cross.7 slab.7) (= recv.1 cross.2) (= recv.2 cross.3) (= recv.3 cross.4) (= recv.4 cross.5) (= recv.5 cross.6) (= recv.6 cross.7))))
(check-sat)
(pop 1)

; 8 regions
(push 1)
(assert (not (and (= cross.1 slab.1) (= cross.2 slab.2) (= cross.3 slab.3) (= cross.4 slab.4) (= cross.5 slab.5) (= cross.6 slab.6) (= cross.7 slab.7) (= cross.8 slab.8) (= recv.1 cross.2) (= recv.2 cross.3) (= recv.3 cross.4) (= recv.4 cross.5) (= recv.5 cross.6) (= recv.6 cross.7) (= recv.7 cross.8))))
(check-sat)
(pop 1)

; 9 regions
(push 1)
(assert (not (and (= cross.1 slab.1) (= cross.2 slab.2) (= cross.3 slab.3) (= cross.4 slab.4) (= cross.5 slab.5) (= cross.6 slab.6) (= cross.7 slab.7) (= cross.8 slab.8) (= cross.9 slab.9) (= recv.1 cross.2) (= recv.2 cross.3) (= recv.3 cross.4) (= recv.4 cross.5) (= recv.5 cross.6) (= recv.6 cross.7) (= recv.7 cross.8) (= recv.8 cross.9))))
(check-sat)
(pop 1)

; 10 regions
(push 1)
(assert (not (and (= cross.1 slab.1) (= cross.2 slab.2) (= cross.3 slab.3) (= cross.4 slab.4) (= cross.5 slab.5) (= cross.6 slab.6) (= cross.7 slab.7) (= cross.8 slab.8) (= cross.9 slab.9) (= cross.10 slab.10) (= recv.1 cross.2) (= recv.2 cross.3) (= recv.3 cross.4) (= recv.4 cross.5) (= recv.5 cross.6) (= recv.6 cross.7) (= recv.7 cross.8) (= recv.8 cross.9) (= recv.9 cross.10))))
(check-sat)
(pop 1)

; 11 regions
(push 1)
(assert (not (and (= cross.1 slab.1) (= cross.2 slab.2) (= cross.3 slab.3) (= cross.4 slab.4) (= cross.5 slab.5) (= cross.6 slab.6) (= cross.7 slab.7) (= cross.8 slab.8) (= cross.9 slab.9) (= cross.10 slab.10) (= cross.11 slab.11) (= recv.1 cross.2) (= recv.2 cross.3) (= recv.3 cross.4) (= recv.4 cross.5) (= recv.5 cross.6) (= recv.6 cross.7) (= recv.7 cross.8) (= recv.8 cross.9) (= recv.9 cross.10) (= recv.10 cross.11))))
(check-sat)
(pop 1)

; 12 regions
(push 1)
(assert (not (and (= cross.1 slab.1) (= cross.2 slab.2) (= cross.3 slab.3) (= cross.4 slab.4) (= cross.5 slab.5) (= cross.6 slab.6) (= cross.7 slab.7) (= cross.8 slab.8) (= cross.9 slab.9) (= cross.10 slab.10) (= cross.11 slab.11) (= cross.12 slab.12) (= recv.1 cross.2) (= recv.2 cross.3) (= recv.3 cross.4) (= recv.4 cross.5) (= recv.5 cross.6) (= recv.6 cross.7) (= recv.7 cross.8) (= recv.8 cross.9) (= recv.9 cross.10) (= recv.10 cross.11) (= recv.11 cross.12))))
(check-sat)
(pop 1)
