#pragma once
#include "cli/client.h"

/*
 * Code for an interpreter, as the verbs `code` and `session run` take it, and what comes of it.
 */

/* Adds "code" to *request: `text`, the file if that is given, else standard input (also for "-").
 * INVALID_ARGUMENT if both are given or it is not UTF-8; errors of the file. */
int atoll_cli_code_add(json_t *request, const char *text, const char *file,
                       struct atoll_error *err) ATOLL_MUST_CHECK;

/* Prints an execution that was collected: output and results on standard output, standard error and the
 * error there. Returns the exit status. */
int atoll_cli_code_print(const json_t *execution);
/* The same for one result and for the error of an execution. */
void atoll_cli_code_print_result(const json_t *result);
void atoll_cli_code_print_error(const json_t *error);
/* 0 for NULL or JSON null; 124 and 137 as for commands; the status of code that exited; else 1. */
int atoll_cli_code_status(const json_t *error);
