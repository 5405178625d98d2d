#pragma once
#include "engine/engine.h"

/*
 * Why code failed, derived from the record of its command and the output of its interpreter. Pure.
 */

/* The exception that the interpreter printed, or else the end of the command in the same form. */
struct atoll_session_error {
    char name[128]; /* "" when it did not fail */
    char value[1024];
    const char *traceback; /* borrowed from the output */
    size_t traceback_len;
};

/* Whether each line of the code begins like a command of a shell: "pip install x". */
bool atoll_code_is_command(const char *code, size_t n);
/* What to tell the author of such code when it failed with this exception; NULL: nothing. */
const char *atoll_command_hint(const char *exception);

/* Adds it to the value of the exception. */
void atoll_session_hint(struct atoll_session_error *error);

/* language NULL: tracebacks are not parsed. ret->traceback is borrowed from err_output. */
void atoll_session_explain(const char *language, const struct atoll_exec_result *end,
                           const uint8_t *err_output, size_t n, struct atoll_session_error *ret);
