// The command line of a test job.
#ifndef JOBS_OPTIONS_H
#define JOBS_OPTIONS_H

#include "job.h"

// Stores all options in their variables; prints help and exits with 0, or a message and exits with 2.
void options_parse(int argc, char **argv, const struct job_option *options, size_t count);

#endif
