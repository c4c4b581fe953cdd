// The command line of a test job: its own options and those of all jobs.
#include "options.h"

#include <stdlib.h>
#include <string.h>

static void print_help(const struct job_option *options, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("  %-18s %s\n", options[i].name, options[i].help);
}

static const struct job_option *find(const struct job_option *options, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(options[i].name, name) == 0)
            return &options[i];
    return NULL;
}

// Stores `text` in the option's variable; false if it is not a number where one is needed.
static bool store(const struct job_option *option, const char *text)
{
    char *end = NULL;
    switch (option->kind) {
    case OPTION_U64:
        *(uint64_t *)option->value = strtoull(text, &end, 10);
        return *text >= '0' && *text <= '9' && *end == '\0';
    case OPTION_F64:
        *(double *)option->value = strtod(text, &end);
        return end != text && *end == '\0';
    case OPTION_TEXT:
        *(const char **)option->value = text;
        return true;
    case OPTION_SET:
    case OPTION_CLEAR:
        break;
    }
    return false;
}

void options_parse(int argc, char **argv, const struct job_option *options, size_t count)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            print_help(options, count);
            exit(0);
        }
        const struct job_option *option = find(options, count, argv[i]);
        if (option == NULL) {
            fprintf(stderr, "%s: unknown option %s (see --help)\n", argv[0], argv[i]);
            exit(2);
        }
        if (option->kind == OPTION_SET || option->kind == OPTION_CLEAR) {
            *(bool *)option->value = option->kind == OPTION_SET;
        } else if (i + 1 == argc || !store(option, argv[i + 1])) {
            fprintf(stderr, "%s: %s needs a value: %s\n", argv[0], option->name, option->help);
            exit(2);
        } else {
            i++;
        }
    }
}
