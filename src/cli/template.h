#pragma once
#include "cli/client.h"

/*
 * Templates are made by sending the daemon a tar, plain or compressed, in pieces as it comes.
 */

/* INVALID_ARGUMENT for what is no name. */
int atoll_cli_template_check_name(const char *name, struct atoll_error *err) ATOLL_MUST_CHECK;
/* "template NAME is ready, SIZE". */
void atoll_cli_template_print(const json_t *template);
/* Sends what `read` yields (0 at the end, -errno to give up) as template `name` and reports the
 * result. ALREADY_EXISTS, INVALID_ARGUMENT and so on. */
int atoll_cli_template_send(struct atoll_cli *cli, const char *name,
                            ssize_t (*read)(void *arg, void *buf, size_t n), void *arg,
                            struct atoll_error *err) ATOLL_MUST_CHECK;

/* The same with the output of a program; it is an error when that program fails. */
int atoll_cli_template_send_output(struct atoll_cli *cli, const char *name, char *const *argv,
                                   struct atoll_error *err) ATOLL_MUST_CHECK;
