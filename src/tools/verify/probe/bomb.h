#pragma once

/*
 * Steps of bombs (bomb.c), by resource. A step allocates one more unit and keeps it: returns 0, or the
 * errno that stopped it. `n` counts from 0.
 */
typedef int probe_step_fn(long n);

struct probe_bomb_kind {
    const char *name;
    probe_step_fn *step;
};

struct probe_bomb_table {
    const struct probe_bomb_kind *kinds;
    unsigned long count;
};

/* Per-user quotas of the kernel (bomb_quota.c). */
extern const struct probe_bomb_table probe_bombs_quota;
/* Programs that use kernel memory instead of their own pages (bomb_kernel.c). */
extern const struct probe_bomb_table probe_bombs_kernel;

/* Memory that sockets of the bomb were seen to hold, for the report. */
extern long probe_socket_bytes;

/* Writes to a non-blocking descriptor until it takes no more: 0, or another errno than EAGAIN. */
int probe_fill(int fd);
