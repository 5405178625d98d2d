#pragma once
#include "base/error.h"

/*
 * Structured log: one JSON object per line on stderr, control bytes escaped, length of lines limited.
 * Only programs log (daemon, spawn); library code returns errors instead.
 */
enum atoll_log_level { ATOLL_LOG_ERROR, ATOLL_LOG_WARN, ATOLL_LOG_INFO, ATOLL_LOG_DEBUG };

/* Lines above this level are dropped. Default: INFO. */
void atoll_log_set_level(enum atoll_log_level level);
/* -EINVAL for an unknown name. */
int atoll_log_parse_level(const char *name, enum atoll_log_level *ret_level) ATOLL_MUST_CHECK;

/* `what` names the event; fields are NULL-terminated pairs of key and value strings. */
void atoll_log(enum atoll_log_level level, const char *what, ...) __attribute__((sentinel));
