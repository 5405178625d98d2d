#pragma once
#include "base/buf.h"

/*
 * Metrics of this process for Prometheus (text format 0.0.4). Every metric is a row of a table in
 * metrics.c; a series is a metric with values for its labels, created when it is first used. There are
 * at most ATOLL_METRICS_SERIES series, in one static block: counting allocates nothing. Values of
 * further series are only counted as dropped.
 *
 * Thread: the loop's, except atoll_metric_note(). Ownership: label values are borrowed for ever, so use literals, rows of static
 * tables, or atoll_metric_keep().
 */
enum atoll_metric {
    ATOLL_METRIC_BUILD,
    ATOLL_METRIC_SANDBOXES,
    ATOLL_METRIC_CREATE_SECONDS,
    ATOLL_METRIC_CREATE_ERRORS,
    ATOLL_METRIC_SANDBOXES_ENDED,
    ATOLL_METRIC_EXEC_START_SECONDS,
    ATOLL_METRIC_EXEC_START_ERRORS,
    ATOLL_METRIC_EXEC_SECONDS,
    ATOLL_METRIC_EXECS_ENDED,
    ATOLL_METRIC_GIT,
    ATOLL_METRIC_DAYTONA,
    ATOLL_METRIC_EVENTS,
    ATOLL_METRIC_QUEUE,
    ATOLL_METRIC_POOL,
    ATOLL_METRIC_POOL_BYTES,
    ATOLL_METRIC_SNAPSHOTS,
    ATOLL_METRIC_SNAPSHOT_SECONDS,
    ATOLL_METRIC_FLUSH_SECONDS,
    ATOLL_METRIC_FROZEN_SECONDS,
    ATOLL_METRIC_FORKS,
    ATOLL_METRIC_RESTORES,
    ATOLL_METRIC_COMPARISONS,
    ATOLL_METRIC_CHECKPOINTS,
    ATOLL_METRIC_UNDOS,
    ATOLL_METRIC_MERGES,
    ATOLL_METRIC_SECRETS,
    ATOLL_METRIC_TEMPLATES,
    ATOLL_METRIC_TEMPLATES_REMOVED,
    ATOLL_METRIC_QUOTA_REFUSED,
    ATOLL_METRIC_PROMISED,
    ATOLL_METRIC_PROMISED_MOST,
    ATOLL_METRIC_CREATING,
    ATOLL_METRIC_SANDBOXES_MOST,
    ATOLL_METRIC_ID_RANGES,
    ATOLL_METRIC_HTTP_REQUESTS,
    ATOLL_METRIC_HTTP_SECONDS,
    ATOLL_METRIC_PREVIEW_REQUESTS,
    ATOLL_METRIC_PREVIEWS_ACTIVE,
    ATOLL_METRIC_PROVIDER_CALLS,
    ATOLL_METRIC_PROVIDER_SECONDS,
    ATOLL_METRIC_PROVIDER_RETRIES,
    ATOLL_METRIC_PROVIDER_UP,
    ATOLL_METRIC_REMOTE_LIMITED,
    ATOLL_METRIC_REMOTE_RETRIES,
    ATOLL_METRIC_REMOTE_PAUSES,
    ATOLL_METRIC_AGENT_DEADLINES,
    ATOLL_METRIC_AGENTS_SILENT,
    ATOLL_METRIC_REMOVALS_RETRIED,
    ATOLL_METRIC_ERRORS,
    ATOLL_METRIC_BYTES,
    ATOLL_METRIC_STORE_BYTES,
    ATOLL_METRIC_DISK_FREE,
    ATOLL_METRIC_KEPT_BYTES,
    ATOLL_METRIC_KEPT_BYTES_MAX,
    ATOLL_METRIC_ENDED_KEPT,
    ATOLL_METRIC_JOURNALS_REMOVED,
    ATOLL_METRIC_OUTPUT_DROPPED,
    ATOLL_METRIC_LOOP_SECONDS,
    ATOLL_METRIC_LOOP_LONGEST,
    ATOLL_METRIC_LOOP_STALLS,
    ATOLL_METRIC_FILE_JOBS,
    ATOLL_METRIC_FILE_HELD,
    ATOLL_METRIC_NETWORK_CONNECTIONS,
    ATOLL_METRIC_NETWORK_BYTES,
    ATOLL_METRIC_NETWORK_LOST,
    ATOLL_METRIC_EGRESS_UP,
    ATOLL_METRIC_EGRESS_RESTARTS,
    ATOLL_METRIC_CACHE_REQUESTS,
    ATOLL_METRIC_CACHE_SENT,
    ATOLL_METRIC_CACHE_EVICTIONS,
    ATOLL_METRIC_CACHE_REFUSED,
    ATOLL_METRIC_CACHE_BYTES,
    ATOLL_METRIC_CACHE_FILES,
    ATOLL_METRIC_BUILDS,
    ATOLL_METRIC_TASKS,
    ATOLL_METRIC_TASKS_ENDED,
    ATOLL_METRIC_BUILD_STEPS,
    ATOLL_METRIC_UNPACKS,
    ATOLL_METRIC_VOLUMES_OPEN,
    ATOLL_METRIC_UNPACKED_BYTES,
    ATOLL_METRIC_PULLS,
    ATOLL_METRIC_PULLED_BYTES,
    ATOLL_METRIC_EXPORTS,
    ATOLL_METRIC_SBOMS,
    ATOLL_METRIC_DROPPED,
    ATOLL_METRIC_CPU_SECONDS,
    ATOLL_METRIC_MEMORY,
    ATOLL_METRIC_HEAP,
    ATOLL_METRIC_FILES,
    ATOLL_METRIC_FILES_MAX,
    ATOLL_METRIC_START_TIME,
    ATOLL_METRICS
};

#define ATOLL_METRICS_SERIES 1024
#define ATOLL_METRIC_LABELS 3

/* Label values, in the order of the table; NULL for unused ones. */
struct atoll_labels {
    const char *values[ATOLL_METRIC_LABELS];
};
#define ATOLL_LABELS(...) (&(const struct atoll_labels){{__VA_ARGS__}})
#define ATOLL_NO_LABELS (&(const struct atoll_labels){{NULL}})

/* Adds n to a counter. */
void atoll_metric_add(enum atoll_metric metric, const struct atoll_labels *labels, double n);
/* Sets a gauge, or a counter that is counted elsewhere. */
void atoll_metric_set(enum atoll_metric metric, const struct atoll_labels *labels, double value);
/* Adds a value to a histogram. */
void atoll_metric_observe(enum atoll_metric metric, const struct atoll_labels *labels,
                          double value);

/* Adds n to a counter with one label. Thread: any. The value is in the series when the metrics are
 * written; at most 32 different counters, others are dropped. */
void atoll_metric_note(enum atoll_metric metric, const char *label, double n);

/* Returns a permanent copy of the text, for label values that an operator chose, such as names of
 * providers. At most 64 different texts; "other" beyond that. */
const char *atoll_metric_keep(const char *text);

/* Appends the content of /metrics. -ENOBUFS, -ENOMEM. */
int atoll_metrics_write(struct atoll_buf *out) ATOLL_MUST_CHECK;
/* Removes all series. For tests. */
void atoll_metrics_reset(void);
