#pragma once
#include "loop/loop.h"
#include "spawn/plan_run.h"

/*
 * Keeps the layer ATOLL_PLAN_HIDDEN of the state directory up to date with the host's /usr:
 * whiteouts that hide files which are not readable by all users of the host (hidden_tree.h,
 * docs/adr/0019).
 *
 * A separate process scans /usr at the lowest priority: at start, when the stamps change
 * (change times of directories that packages change and of the package database; checked
 * every five seconds), and at least every ten minutes. The result is in `hidden/list` and, with
 * root, also in /run/atoll/hidden for other instances on this host; a list that is younger than
 * five minutes and has the same stamps is used without a scan. A replaced layer stays as
 * hidden.old-<number> until the next start, because running sandboxes use it.
 * Thread: the loop's.
 */
struct atoll_hidden;

/* Opens the host's directories that are not visible after atoll_own_root(). A missing directory is
 * not an error. */
void atoll_hidden_prepare(struct atoll_spawn_host *host);

/* Without a recent list there is no layer until the first scan ends; sandboxes that need it
 * wait. */
int atoll_hidden_start(struct atoll_loop *loop, const struct atoll_spawn_host *host,
                       struct atoll_hidden **ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Opens the layer; for the process of a new sandbox. Blocks until the first scan made it.
 * -ETIMEDOUT. */
int atoll_hidden_open_layer(int state_fd) ATOLL_MUST_CHECK;
