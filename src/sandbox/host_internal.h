#pragma once
#include "sandbox/host.h"

/*
 * Shared by the files of the host probe. Each host_*.c adds the checks of one theme to the report.
 */

/* Adds a check; one past the maximum is dropped, which the tables keep from happening. */
void atoll_host_add(struct atoll_host_report *report, const char *name, enum atoll_host_state state,
                    bool essential, const char *fix, const char *detail, ...) ATOLL_PRINTF(6, 7);

/* The caps: host_caps.c calls the two others. */
void atoll_host_find_cgroups(struct atoll_host_caps *caps);
void atoll_host_find_subids(struct atoll_host_caps *caps);

/* The checks, in the order of the report. */
void atoll_host_check_kernel(struct atoll_host_report *report);
void atoll_host_check_cgroups(struct atoll_host_report *report);
void atoll_host_check_files(struct atoll_host_report *report);
void atoll_host_check_tools(struct atoll_host_report *report);
void atoll_host_check_limits(struct atoll_host_report *report);
void atoll_host_check_hardening(struct atoll_host_report *report);

/* Whether an executable of this name is in PATH or the usual sbin directories. */
bool atoll_host_has_program(const char *name);
/* A small file as a string without its last newline; -errno. */
int atoll_host_read(const char *path, char *buf, size_t cap) ATOLL_MUST_CHECK;
/* The number in a file of /proc/sys, named as sysctl spells it; -errno. */
int atoll_host_read_sysctl(const char *name, long *ret_value) ATOLL_MUST_CHECK;
