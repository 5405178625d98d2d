#pragma once
#include "tools/verify/report.h"

/* Prints the report as text: findings first, then the results of each tier. */
void atoll_cli_verify_print(const struct atoll_report *report);
/* Prints every check with its row in docs/security.md and its promise. */
void atoll_cli_verify_print_list(const json_t *list);
