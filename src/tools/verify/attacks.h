#pragma once
#include "tools/verify/verify.h"

/*
 * Attacks on the daemon by those it serves: hostile paths, archives and repositories, requests that
 * two parsers would read differently, ids and hosts that belong to somebody else, frames of an agent
 * that lies, guessed keys. Each has its control: the same input given to a careless stand-in of our
 * own, in this process or below v->scratch, which must fall for it. Tier "daemon"; controls are
 * added as tier "control".
 */

/* The table of all of them, for lists and documentation. */
extern const struct atoll_check atoll_attack_checks[];
extern const size_t atoll_attack_checks_count;

/* Makes sandboxes of its own and removes them. Fails only when the daemon cannot be talked to. */
int atoll_attacks_run(const struct atoll_verify *v, struct atoll_error *err) ATOLL_MUST_CHECK;
