#pragma once
#include <stddef.h>

/*
 * Paths below /proc that no sandbox needs. Read-only tables; not const because vectors in messages
 * are not.
 */

/* Files that reveal or change the state of the host: masked. */
extern const char *atoll_proc_masked[];
extern const size_t atoll_proc_masked_count;
/* More files to mask: they show the load, the devices and the other sandboxes of the host. */
extern const char *atoll_proc_host_state[];
extern const size_t atoll_proc_host_state_count;
/* Kernel settings: mounted read-only. */
extern const char *atoll_proc_read_only[];
extern const size_t atoll_proc_read_only_count;
