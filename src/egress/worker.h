#pragma once
#include "base/error.h"

struct atoll_names_kept;

/*
 * The worker: serves the daemon that connects to listen_fd, and the sandboxes that it names. Confines
 * itself, then runs until the daemon or the end of all sandboxes ends it. listen_fd and state_fd are
 * borrowed. starter_fd: the pidfd of the daemon that started the program, for the first worker, else
 * ATOLL_NO_FD; taken. names: what earlier workers have left (egress/names_kept.h), or NULL.
 */
int atoll_worker_run(int listen_fd, int state_fd, int starter_fd, struct atoll_names_kept *names,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
