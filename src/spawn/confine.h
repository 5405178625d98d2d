#pragma once
#include "base/error.h"

/*
 * What atoll-spawn gives up before it does anything: capabilities that no step of a plan needs, the
 * way to get others (no_new_privs), and system calls that neither it nor what it becomes (the agent,
 * runsc) makes. Its sandboxes inherit that, and give up the rest by themselves.
 * As an ordinary user it gives up nothing: newuidmap is a set-uid program.
 */
int atoll_confine(struct atoll_error *err) ATOLL_MUST_CHECK;
