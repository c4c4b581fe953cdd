"""Exchanges buffers and pickled objects between all ranks, and checks what comes."""

import sys
from array import array

from mpi4py import MPI

ITERATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 5000

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
right, left = (rank + 1) % ranks, (rank - 1) % ranks

if rank == 0:
    print("ready", flush=True)

errors = 0
received = array("d", bytes(8 * 128))
total = array("l", [0])
for iteration in range(ITERATIONS):
    comm.Sendrecv(array("d", [rank + iteration] * 128), right, 1, received, left, 1)
    errors += any(value != left + iteration for value in received)
    comm.Allreduce(array("l", [rank + iteration]), total)
    errors += total[0] != ranks * (ranks - 1) // 2 + ranks * iteration
    if iteration % 100 == 0:
        told = comm.sendrecv({"from": rank, "iteration": iteration}, right, 2, source=left, recvtag=2)
        errors += told != {"from": left, "iteration": iteration}

errors = comm.allreduce(errors)
if rank == 0:
    print("ok" if errors == 0 else "wrong", f"python: {ranks} ranks, {ITERATIONS} iterations, {errors} errors", flush=True)
sys.exit(errors != 0)
