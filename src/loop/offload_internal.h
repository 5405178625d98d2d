#pragma once
#include "loop/offload.h"

/* What the two files of the module share. */

/* Counts a descriptor of the tenant's until atoll_offload_drop(). */
void atoll_offload_add(struct atoll_offload *o, const struct atoll_lane *lane);
void atoll_offload_drop(struct atoll_offload *o, const struct atoll_lane *lane);
/* run on a worker and done on the loop; job->owner and job->lane are set from lane, which lives as long. */
void atoll_offload_submit(struct atoll_offload *o, const struct atoll_lane *lane,
                          struct atoll_job *job);
/* On a worker. */
void atoll_offload_close_now(int fd);
