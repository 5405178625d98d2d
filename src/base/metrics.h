#pragma once
#include "base/buf.h"

/*
 * Figures about this process for Prometheus (text format 0.0.4). Every metric is a row of a table in
 * metrics.c; a series is a metric with values for its labels, and comes to be when it is first used.
 * There is room for ATOLL_METRICS_SERIES of them, in one block: counting allocates nothing, and
 * labels that grow without end are counted as dropped instead.
 *
 * Thread: one, the loop's. Ownership: label values are borrowed for good, so they are literals or
 * rows of tables.
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
    ATOLL_METRIC_EVENTS,
    ATOLL_METRIC_QUEUE,
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
    ATOLL_METRIC_AGENT_DEADLINES,
    ATOLL_METRIC_AGENTS_SILENT,
    ATOLL_METRIC_REMOVALS_RETRIED,
    ATOLL_METRIC_ERRORS,
    ATOLL_METRIC_BYTES,
    ATOLL_METRIC_STORE_BYTES,
    ATOLL_METRIC_DISK_FREE,
    ATOLL_METRIC_KEPT_BYTES,
    ATOLL_METRIC_KEPT_BYTES_MAX,
    ATOLL_METRIC_JOURNALS_REMOVED,
    ATOLL_METRIC_OUTPUT_DROPPED,
    ATOLL_METRIC_LOOP_SECONDS,
    ATOLL_METRIC_LOOP_LONGEST,
    ATOLL_METRIC_LOOP_STALLS,
    ATOLL_METRIC_FILE_JOBS,
    ATOLL_METRIC_FILE_HELD,
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

/* The values of its labels, in the order of the table; NULL for those it has not. */
struct atoll_labels {
    const char *values[ATOLL_METRIC_LABELS];
};
#define ATOLL_LABELS(...) (&(const struct atoll_labels){{__VA_ARGS__}})
#define ATOLL_NO_LABELS (&(const struct atoll_labels){{NULL}})

/* A counter goes up by n. */
void atoll_metric_add(enum atoll_metric metric, const struct atoll_labels *labels, double n);
/* A gauge (or a counter that is kept elsewhere) has this value now. */
void atoll_metric_set(enum atoll_metric metric, const struct atoll_labels *labels, double value);
/* A histogram gets one more value. */
void atoll_metric_observe(enum atoll_metric metric, const struct atoll_labels *labels,
                          double value);

/* The same text, good for ever: for labels that an operator chose, of which there are few (64; then it is
 * "other"). */
const char *atoll_metric_keep(const char *text);

/* What /metrics shows. -ENOBUFS, -ENOMEM. */
int atoll_metrics_write(struct atoll_buf *out) ATOLL_MUST_CHECK;
/* Forgets all series. For tests. */
void atoll_metrics_reset(void);
