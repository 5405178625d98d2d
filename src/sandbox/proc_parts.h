#pragma once
#include <stddef.h>

/*
 * Parts of /proc that no sandbox needs. Names below /proc. Nobody changes them; they are not const
 * because lists in messages are not.
 */

/* They tell about the host, or act on it: hidden. */
extern const char *atoll_proc_masked[];
extern const size_t atoll_proc_masked_count;
/* What else tells about the load, the devices and the other sandboxes of the host. */
extern const char *atoll_proc_host_state[];
extern const size_t atoll_proc_host_state_count;
/* Settings of the kernel: to be read only. */
extern const char *atoll_proc_read_only[];
extern const size_t atoll_proc_read_only_count;
