// One name out of a list, as the value of an option.
#ifndef JOBS_CHOICE_H
#define JOBS_CHOICE_H

#include <stddef.h>

// The position of `name` in the list. Ends the job with a message that has the whole list if it is not there, or if its
// place in the list is empty.
size_t choice_of(const char *option, const char *name, const char *const *names, size_t count);

#endif
