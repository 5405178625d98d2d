#pragma once
#include "cli/client.h"

/*
 * Creates templates: streams a tar, plain or compressed, to the daemon.
 */

/* INVALID_ARGUMENT if the name is not valid for a template. */
int atoll_cli_template_check_name(const char *name, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Prints "template NAME is ready, SIZE". */
void atoll_cli_template_print(const json_t *template);
/* Sends the bytes that read() returns (0: end, -errno: abort) as template `name` and prints the
 * result. ALREADY_EXISTS, INVALID_ARGUMENT and other errors of the daemon. */
int atoll_cli_template_send(struct atoll_cli *cli, const char *name,
                            ssize_t (*read)(void *arg, void *buf, size_t n), void *arg,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* Sends the output of a program. Fails if the program fails. */
int atoll_cli_template_send_output(struct atoll_cli *cli, const char *name, char *const *argv,
                                   struct atoll_error *err) ATOLL_MUST_CHECK;

/* The paths of all files in DIR that .dockerignore does not exclude, each with a NUL, in a memfd that child
 * processes inherit; owned by the caller. The Dockerfile and .dockerignore are never excluded. */
int atoll_cli_list_context(const char *dir, const char *dockerfile, int *ret_fd,
                           struct atoll_error *err) ATOLL_MUST_CHECK;
