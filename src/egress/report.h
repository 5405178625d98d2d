#pragma once
#include "egress/egress.h"

/*
 * Events for the daemon, in order, queued while it does not read or is not connected. The queue is
 * bounded; tenants share it fairly.
 */
struct atoll_reports *atoll_reports_new(void);
struct atoll_reports *atoll_reports_free(struct atoll_reports *r);

/* The oldest event, borrowed until the next call; NULL: absent. */
const struct atoll_em_connection *atoll_reports_first(const struct atoll_reports *r);
void atoll_reports_pop(struct atoll_reports *r);

/* Called when an event was queued. */
void atoll_reports_on_queued(struct atoll_reports *r, void (*fn)(void *arg), void *arg);
