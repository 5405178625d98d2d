#pragma once
#include "tools/verify/report.h"

/* The report for people: findings first, then what each tier gives and does not. */
void atoll_cli_verify_print(const struct atoll_report *report);
/* Every check with its row and promise. */
void atoll_cli_verify_print_list(const json_t *list);
