//! Helpers of the live tests: real MPI jobs, real probes.
