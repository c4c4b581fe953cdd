#define SOURCE_OF(status) status%MPI_SOURCE
program fortran_f08
      use mpi_f08
      implicit none
      type(MPI_Request) :: sends(32), requests(32)
      type(MPI_Status) :: status
      type(MPI_Comm) :: comms(3)
      type(MPI_File) :: file
#include "fortran.inc"
end program
