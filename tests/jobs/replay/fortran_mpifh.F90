#define SOURCE_OF(status) status(MPI_SOURCE)
program fortran_mpifh
      implicit none
      include 'mpif.h'
      integer :: sends(32), requests(32), status(MPI_STATUS_SIZE), comms(3), file
#include "fortran.inc"
end program
