#pragma once
#include "git/url.h"

/*
 * From a request to the command that runs inside the sandbox. Pure.
 */
struct atoll_git_command {
    const char **argv; /* owned array; NULL-terminated */
    const char **env;  /* likewise */
    size_t argc, envc;
    char *texts[16]; /* owned: strings that argv and env point to */
    size_t text_count;
    struct atoll_git_url url;
    /* For the command's standard input: credentials, or the paths of files. Wiped when freed. */
    struct atoll_buf input;
    uint32_t timeout_ms;
};

/* INVALID_ARGUMENT. Strings of the request are borrowed until atoll_git_command_done(). */
int atoll_git_command_make(const struct atoll_git_request *request, struct atoll_git_command *ret,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
/* Safe after a failure. */
void atoll_git_command_done(struct atoll_git_command *command);
