#pragma once
#include "loop/loop.h"
#include "spawn/plan_run.h"

/*
 * Keeps the layer ATOLL_PLAN_HIDDEN of the state directory in step with the host's /usr: the whiteouts
 * that hide what is not for all users of the host (hidden_tree.h, docs/adr/0019).
 *
 * A process of its own looks through /usr, at the lowest priority: at the start, when the signs of a
 * change differ (times of the directories that packages change, and of their database; looked at
 * every five seconds), and every ten minutes in any case. What was found is in `hidden/list` and, with root, also in
 * /run/atoll/hidden for other instances on this host; a list that is younger than five minutes and has the same signs is
 * taken as it is. A layer that is replaced stays as hidden.old-<number> until the next start, since sandboxes
 * stand on it.
 * Thread: the loop's.
 */
struct atoll_hidden;

/* Opens what is out of sight once spawn has a root of its own. Absent is fine. */
void atoll_hidden_prepare(struct atoll_spawn_host *host);

/* Without a list that can be taken as it is there is no layer yet, and sandboxes that need it wait. */
int atoll_hidden_start(struct atoll_loop *loop, const struct atoll_spawn_host *host,
                       struct atoll_hidden **ret, struct atoll_error *err) ATOLL_MUST_CHECK;

/* Opens the layer, in a new sandbox: waits for the first one to be made. -ETIMEDOUT. */
int atoll_hidden_open_layer(int state_fd) ATOLL_MUST_CHECK;
