#pragma once
#include "sandbox/host.h"

/*
 * Shared by the files of the host probe. Each host_*.c adds the checks of one topic to the report.
 */

/* Adds a check. A check beyond the report's maximum is dropped; the tables are smaller than
 * that. */
void atoll_host_add(struct atoll_host_report *report, const char *name, enum atoll_host_state state,
                    bool essential, const char *fix, const char *detail, ...) ATOLL_PRINTF(6, 7);

/* Parts of the caps; host_caps.c calls them. */
void atoll_host_find_cgroups(struct atoll_host_caps *caps);
void atoll_host_find_subids(struct atoll_host_caps *caps);

/* The checks, in the order of the report. */
void atoll_host_check_kernel(struct atoll_host_report *report);
void atoll_host_check_cgroups(struct atoll_host_report *report);
void atoll_host_check_files(struct atoll_host_report *report);
void atoll_host_check_tools(struct atoll_host_report *report);
void atoll_host_check_limits(struct atoll_host_report *report);
void atoll_host_check_hardening(struct atoll_host_report *report);

/* True if an executable of this name is in PATH or in the usual sbin directories. */
bool atoll_host_has_program(const char *name);
/* Reads a small file as a string without its last newline; -errno. */
int atoll_host_read(const char *path, char *buf, size_t cap) ATOLL_MUST_CHECK;
/* Reads a number from /proc/sys; `name` is as in sysctl(8). -errno. */
int atoll_host_read_sysctl(const char *name, long *ret_value) ATOLL_MUST_CHECK;
