#pragma once
#include "base/error.h"

struct atoll_names_kept;

/*
 * The worker: serves the daemon that connects to listen_fd, and the sandboxes that it names. Confines
 * itself, then runs until the daemon or the end of all sandboxes ends it. Descriptors are borrowed. names:
 * what earlier workers have left (egress/names_kept.h), or NULL.
 */
int atoll_worker_run(int listen_fd, int state_fd, struct atoll_names_kept *names,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
