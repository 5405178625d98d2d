#pragma once
#include "tools/verify/verify.h"

/*
 * Attacks on the daemon by its clients and by code in sandboxes: hostile paths, archives and
 * repositories, requests that two parsers would interpret differently, ids and hosts of other tenants,
 * forged agent frames, guessed keys. Each has a control: the same input for a deliberately careless
 * implementation of our own, in this process or below v->scratch, on which the attack must succeed.
 * Results have tier "daemon", controls tier "control".
 */

/* The table of all of them, for lists and documentation. */
extern const struct atoll_check atoll_attack_checks[];
extern const size_t atoll_attack_checks_count;

/* Makes its own sandboxes and removes them. Fails only if the daemon cannot be reached. */
int atoll_attacks_run(const struct atoll_verify *v, struct atoll_error *err) ATOLL_MUST_CHECK;
