#include "base/metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define BUCKETS_MAX 16
#define SLOTS (2 * ATOLL_METRICS_SERIES) /* of the hash table: a power of two, half empty */

enum kind { COUNTER, GAUGE, HISTOGRAM };

/* Upper bounds in seconds, ending with 0. */
static const double quick[] = {.0005, .001, .002, .003, .005, .0075, .01, .025,
                               .05,   .1,   .25,  .5,   1,    5,     0};
static const double request[] = {.0001, .00025, .0005, .001, .0025, .005, .01, .025,
                                 .05,   .1,     .25,   .5,   1,     5,    30,  0};
static const double work[] = {.005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 0};

static const struct row {
    const char *name;
    enum kind kind;
    const char *labels[ATOLL_METRIC_LABELS];
    const double *bounds;
    const char *help;
} rows[ATOLL_METRICS] = {
    [ATOLL_METRIC_BUILD] = {"atoll_build_info", GAUGE, {"version"}, NULL, "Always 1."},
    [ATOLL_METRIC_SANDBOXES] =
        {"atoll_sandboxes", GAUGE, {"provider", "state"}, NULL, "Sandboxes that exist now."},
    [ATOLL_METRIC_CREATE_SECONDS] = {"atoll_sandbox_create_seconds",
                                     HISTOGRAM,
                                     {"provider"},
                                     quick,
                                     "Time from the request until the sandbox is ready."},
    [ATOLL_METRIC_CREATE_ERRORS] = {"atoll_sandbox_create_errors_total",
                                    COUNTER,
                                    {"provider", "kind"},
                                    NULL,
                                    "Sandboxes that could not be created."},
    [ATOLL_METRIC_SANDBOXES_ENDED] = {"atoll_sandboxes_ended_total",
                                      COUNTER,
                                      {"cause", "how"},
                                      NULL,
                                      "Sandboxes that ended or were paused, by cause."},
    [ATOLL_METRIC_EXEC_START_SECONDS] = {"atoll_exec_start_seconds",
                                         HISTOGRAM,
                                         {"provider"},
                                         quick,
                                         "Time from the request until the command runs."},
    [ATOLL_METRIC_EXEC_START_ERRORS] = {"atoll_exec_start_errors_total",
                                        COUNTER,
                                        {"provider", "kind"},
                                        NULL,
                                        "Commands that did not start."},
    [ATOLL_METRIC_EXEC_SECONDS] =
        {"atoll_exec_seconds", HISTOGRAM, {NULL}, work, "How long commands ran."},
    [ATOLL_METRIC_EXECS_ENDED] =
        {"atoll_execs_ended_total", COUNTER, {"kind"}, NULL, "Commands by how they ended."},
    [ATOLL_METRIC_DAYTONA] =
        {"atoll_daytona", GAUGE, {"what"}, NULL, "What the Daytona facade holds in memory."},
    [ATOLL_METRIC_GIT] = {"atoll_git_requests_total",
                          COUNTER,
                          {"op", "problem"},
                          NULL,
                          "Requests that ran git, by what was wrong."},
    [ATOLL_METRIC_EVENTS] = {"atoll_events_total",
                             COUNTER,
                             {"kind"},
                             NULL,
                             "Changes of state of sandboxes and commands."},
    [ATOLL_METRIC_QUEUE] =
        {"atoll_queue_length", GAUGE, {"kind"}, NULL, "Requests that wait in a queue."},
    [ATOLL_METRIC_POOL] = {"atoll_pool_sandboxes",
                           GAUGE,
                           {"class", "what"},
                           NULL,
                           "Sandboxes that are kept ready, by pool class."},
    [ATOLL_METRIC_POOL_BYTES] = {"atoll_pool_memory_bytes",
                                 GAUGE,
                                 {"class"},
                                 NULL,
                                 "Memory of those of an environment, when they were made."},
    [ATOLL_METRIC_TEMPLATES] = {"atoll_templates",
                                GAUGE,
                                {"what"},
                                NULL,
                                "Versions, tags, layers and cached steps of templates."},
    [ATOLL_METRIC_TEMPLATES_REMOVED] = {"atoll_templates_removed_total",
                                        COUNTER,
                                        {"what"},
                                        NULL,
                                        "Versions, layers and cached steps that were removed."},
    [ATOLL_METRIC_SNAPSHOTS] = {"atoll_snapshots_total",
                                COUNTER,
                                {"for", "result"},
                                NULL,
                                "Snapshots, and forks, of which each makes one."},
    [ATOLL_METRIC_SNAPSHOT_SECONDS] = {"atoll_snapshot_seconds",
                                       HISTOGRAM,
                                       {"provider"},
                                       work,
                                       "Time from the request until the snapshot is kept."},
    [ATOLL_METRIC_FLUSH_SECONDS] =
        {"atoll_snapshot_flush_seconds",
         HISTOGRAM,
         {"provider"},
         work,
         "Time of copying or writing for a snapshot while processes ran."},
    [ATOLL_METRIC_FROZEN_SECONDS] = {"atoll_snapshot_frozen_seconds",
                                     HISTOGRAM,
                                     {"provider"},
                                     quick,
                                     "How long processes stood still for a snapshot."},
    [ATOLL_METRIC_FORKS] =
        {"atoll_forks_total", COUNTER, {"result"}, NULL, "Sandboxes that forks made."},
    [ATOLL_METRIC_RESTORES] = {"atoll_restores_total",
                               COUNTER,
                               {"result"},
                               NULL,
                               "Sandboxes that were restored to a snapshot."},
    [ATOLL_METRIC_COMPARISONS] = {"atoll_comparisons_total",
                                  COUNTER,
                                  {"result"},
                                  NULL,
                                  "Comparisons of two trees of layers."},
    [ATOLL_METRIC_CHECKPOINTS] =
        {"atoll_checkpoints_total", COUNTER, {"result"}, NULL, "Checkpoints of commands."},
    [ATOLL_METRIC_UNDOS] = {"atoll_undos_total",
                            COUNTER,
                            {"result"},
                            NULL,
                            "Sandboxes whose last commands were undone."},
    [ATOLL_METRIC_MERGES] =
        {"atoll_merges_total", COUNTER, {"result"}, NULL, "Merges of forks into a sandbox."},
    [ATOLL_METRIC_SECRETS] = {"atoll_secrets", GAUGE, {NULL}, NULL, "Secrets of all tenants."},
    [ATOLL_METRIC_QUOTA_REFUSED] = {"atoll_quota_refused_total",
                                    COUNTER,
                                    {"what"},
                                    NULL,
                                    "Requests refused because of a quota."},
    [ATOLL_METRIC_PROMISED] = {"atoll_promised",
                               GAUGE,
                               {"what", "scope"},
                               NULL,
                               "Sums of limits of sandboxes: memory and disk in bytes, CPUs."},
    [ATOLL_METRIC_PROMISED_MOST] = {"atoll_promised_most",
                                    GAUGE,
                                    {"what", "scope"},
                                    NULL,
                                    "Maximum of these sums; 0: no limit."},
    [ATOLL_METRIC_CREATING] =
        {"atoll_creates_running", GAUGE, {NULL}, NULL, "Sandboxes being created on this machine."},
    [ATOLL_METRIC_SANDBOXES_MOST] =
        {"atoll_sandboxes_most", GAUGE, {NULL}, NULL, "Most sandboxes at once."},
    [ATOLL_METRIC_ID_RANGES] = {"atoll_id_ranges",
                                GAUGE,
                                {"state"},
                                NULL,
                                "Ranges of user ids, one for each native sandbox."},
    [ATOLL_METRIC_HTTP_REQUESTS] = {"atoll_http_requests_total",
                                    COUNTER,
                                    {"method", "route", "status"},
                                    NULL,
                                    "Requests to the API."},
    [ATOLL_METRIC_HTTP_SECONDS] = {"atoll_http_request_seconds",
                                   HISTOGRAM,
                                   {"method", "route"},
                                   request,
                                   "Time from the head of a request to the end of its answer."},
    [ATOLL_METRIC_PREVIEW_REQUESTS] =
        {"atoll_preview_requests_total", COUNTER, {"status"}, NULL, "Requests to previews."},
    [ATOLL_METRIC_PREVIEWS_ACTIVE] = {"atoll_previews_active",
                                      GAUGE,
                                      {NULL},
                                      NULL,
                                      "Active requests to and tunnels into sandboxes."},
    [ATOLL_METRIC_PROVIDER_CALLS] = {"atoll_provider_calls_total",
                                     COUNTER,
                                     {"provider", "op", "result"},
                                     NULL,
                                     "Calls to providers, by operation and result."},
    [ATOLL_METRIC_PROVIDER_SECONDS] = {"atoll_provider_call_seconds",
                                       HISTOGRAM,
                                       {"provider", "op"},
                                       request,
                                       "Duration of calls to providers, each attempt."},
    [ATOLL_METRIC_PROVIDER_RETRIES] = {"atoll_provider_retries_total",
                                       COUNTER,
                                       {"provider", "op"},
                                       NULL,
                                       "Calls to providers that were retried."},
    [ATOLL_METRIC_PROVIDER_UP] = {"atoll_provider_up",
                                  GAUGE,
                                  {"provider"},
                                  NULL,
                                  "1 for a provider that takes new sandboxes."},
    [ATOLL_METRIC_REMOTE_LIMITED] = {"atoll_remote_limited_total",
                                     COUNTER,
                                     {"service"},
                                     NULL,
                                     "Answers of services that ask to come back later."},
    [ATOLL_METRIC_REMOTE_RETRIES] = {"atoll_remote_retries_total",
                                     COUNTER,
                                     {"service"},
                                     NULL,
                                     "Requests to services that were sent again."},
    [ATOLL_METRIC_REMOTE_PAUSES] = {"atoll_remote_pause_seconds_total",
                                    COUNTER,
                                    {"service"},
                                    NULL,
                                    "Time that requests to services waited for their turn."},
    [ATOLL_METRIC_AGENT_DEADLINES] = {"atoll_agent_deadlines_total",
                                      COUNTER,
                                      {"cause"},
                                      NULL,
                                      "Requests to agents that timed out."},
    [ATOLL_METRIC_REMOVALS_RETRIED] = {"atoll_removals_retried_total",
                                       COUNTER,
                                       {"provider"},
                                       NULL,
                                       "Removals of sandboxes that were retried."},
    [ATOLL_METRIC_AGENTS_SILENT] =
        {"atoll_agents_silent", GAUGE, {NULL}, NULL, "Sandboxes whose agent does not answer."},
    [ATOLL_METRIC_ERRORS] =
        {"atoll_errors_total", COUNTER, {"kind"}, NULL, "Requests to the API that failed."},
    [ATOLL_METRIC_BYTES] = {"atoll_bytes_total",
                            COUNTER,
                            {"what", "direction"},
                            NULL,
                            "Bytes from clients (in) and to them (out)."},
    [ATOLL_METRIC_STORE_BYTES] = {"atoll_store_bytes",
                                  GAUGE,
                                  {"file"},
                                  NULL,
                                  "Size of the daemon's database and of its write-ahead log."},
    [ATOLL_METRIC_DISK_FREE] = {"atoll_state_disk_free_bytes",
                                GAUGE,
                                {NULL},
                                NULL,
                                "Free space on the file system of the state directory."},
    [ATOLL_METRIC_KEPT_BYTES] = {"atoll_kept_bytes",
                                 GAUGE,
                                 {"what"},
                                 NULL,
                                 "Stored data that has a limit in bytes, by kind."},
    [ATOLL_METRIC_KEPT_BYTES_MAX] =
        {"atoll_kept_bytes_max", GAUGE, {"what"}, NULL, "Limit of atoll_kept_bytes."},
    [ATOLL_METRIC_ENDED_KEPT] =
        {"atoll_ended_records", GAUGE, {NULL}, NULL, "Records of ended sandboxes."},
    [ATOLL_METRIC_JOURNALS_REMOVED] = {"atoll_journals_removed_total",
                                       COUNTER,
                                       {"limit"},
                                       NULL,
                                       "Output of ended commands that was removed, by limit."},
    [ATOLL_METRIC_OUTPUT_DROPPED] =
        {"atoll_output_dropped_bytes_total",
         COUNTER,
         {NULL},
         NULL,
         "Output without a follower that was dropped for lack of space."},
    [ATOLL_METRIC_LOOP_SECONDS] =
        {"atoll_loop_turn_seconds", HISTOGRAM, {NULL}, request, "Duration of loop iterations."},
    [ATOLL_METRIC_LOOP_LONGEST] = {"atoll_loop_turn_longest_seconds",
                                   GAUGE,
                                   {NULL},
                                   NULL,
                                   "Longest loop iteration since the daemon started."},
    [ATOLL_METRIC_LOOP_STALLS] = {"atoll_loop_stalls_total",
                                  COUNTER,
                                  {NULL},
                                  NULL,
                                  "Loop iterations that took more than 100 ms."},
    [ATOLL_METRIC_FILE_JOBS] = {"atoll_file_jobs",
                                GAUGE,
                                {"state"},
                                NULL,
                                "Reads, writes and closes of files of sandboxes."},
    [ATOLL_METRIC_FILE_HELD] = {"atoll_file_descriptors",
                                GAUGE,
                                {NULL},
                                NULL,
                                "Files of sandboxes that are open, or wait to be closed."},
    [ATOLL_METRIC_NETWORK_CONNECTIONS] = {"atoll_network_connections_total",
                                          COUNTER,
                                          {"kind", "end"},
                                          NULL,
                                          "Connections and DNS questions of sandboxes that ended."},
    [ATOLL_METRIC_NETWORK_BYTES] = {"atoll_network_bytes_total",
                                    COUNTER,
                                    {"direction"},
                                    NULL,
                                    "Bytes of ended connections of sandboxes."},
    [ATOLL_METRIC_NETWORK_LOST] = {"atoll_network_events_lost_total",
                                   COUNTER,
                                   {"where"},
                                   NULL,
                                   "Events of connections that are in no journal."},
    [ATOLL_METRIC_EGRESS_UP] =
        {"atoll_egress_up", GAUGE, {NULL}, NULL, "1 while atoll-egress answers."},
    [ATOLL_METRIC_EGRESS_RESTARTS] = {"atoll_egress_restarts_total",
                                      COUNTER,
                                      {NULL},
                                      NULL,
                                      "Workers of atoll-egress that replaced another."},
    [ATOLL_METRIC_CACHE_REQUESTS] = {"atoll_cache_requests_total",
                                     COUNTER,
                                     {"result"},
                                     NULL,
                                     "Requests of sandboxes for downloads that can be kept."},
    [ATOLL_METRIC_CACHE_SENT] = {"atoll_cache_sent_bytes_total",
                                 COUNTER,
                                 {"from"},
                                 NULL,
                                 "Bytes that these requests got from the cache or from servers."},
    [ATOLL_METRIC_CACHE_EVICTIONS] = {"atoll_cache_evictions_total",
                                      COUNTER,
                                      {NULL},
                                      NULL,
                                      "Downloads that were removed to make room for others."},
    [ATOLL_METRIC_CACHE_REFUSED] = {"atoll_cache_refused_total",
                                    COUNTER,
                                    {"why"},
                                    NULL,
                                    "Downloads that were not kept, or not given any more."},
    [ATOLL_METRIC_CACHE_BYTES] =
        {"atoll_cache_bytes", GAUGE, {NULL}, NULL, "Size of the downloads that are kept."},
    [ATOLL_METRIC_CACHE_FILES] =
        {"atoll_cache_files", GAUGE, {NULL}, NULL, "Number of downloads that are kept."},
    [ATOLL_METRIC_TASKS] =
        {"atoll_tasks", GAUGE, {"state"}, NULL, "Tasks that have not ended, by state."},
    [ATOLL_METRIC_TASKS_ENDED] =
        {"atoll_tasks_total", COUNTER, {"result"}, NULL, "Tasks that ended, by result."},
    [ATOLL_METRIC_BUILDS] =
        {"atoll_builds_total", COUNTER, {"result"}, NULL, "Builds that ended, by result."},
    [ATOLL_METRIC_BUILD_STEPS] =
        {"atoll_build_steps_total", COUNTER, {"result"}, NULL, "Steps of builds, by result."},
    [ATOLL_METRIC_VOLUMES_OPEN] = {"atoll_volumes_open",
                                   GAUGE,
                                   {NULL},
                                   NULL,
                                   "Volumes whose files requests reach without a sandbox."},
    [ATOLL_METRIC_UNPACKS] = {"atoll_unpacks_total",
                              COUNTER,
                              {"result"},
                              NULL,
                              "Archives that were unpacked to layers, by result."},
    [ATOLL_METRIC_UNPACKED_BYTES] =
        {"atoll_unpacked_bytes_total", COUNTER, {NULL}, NULL, "Sizes of these layers."},
    [ATOLL_METRIC_PULLS] =
        {"atoll_image_pulls_total", COUNTER, {"result"}, NULL, "Pulls of images, by result."},
    [ATOLL_METRIC_PULLED_BYTES] = {"atoll_image_pulled_bytes_total",
                                   COUNTER,
                                   {NULL},
                                   NULL,
                                   "Bytes of blobs that came from registries."},
    [ATOLL_METRIC_EXPORTS] = {"atoll_image_exports_total",
                              COUNTER,
                              {"kind", "result"},
                              NULL,
                              "Templates that were pushed or saved as images, by result."},
    [ATOLL_METRIC_SBOMS] = {"atoll_sboms_total",
                            COUNTER,
                            {"result"},
                            NULL,
                            "Lists of packages of versions that were made, by result."},
    [ATOLL_METRIC_DROPPED] = {"atoll_metrics_dropped_total",
                              COUNTER,
                              {NULL},
                              NULL,
                              "Values dropped because there are too many series."},
    [ATOLL_METRIC_CPU_SECONDS] =
        {"process_cpu_seconds_total", COUNTER, {NULL}, NULL, "CPU time of the daemon."},
    [ATOLL_METRIC_MEMORY] =
        {"process_resident_memory_bytes", GAUGE, {NULL}, NULL, "Memory of the daemon."},
    [ATOLL_METRIC_HEAP] =
        {"process_heap_bytes", GAUGE, {NULL}, NULL, "Memory of the daemon that is in use."},
    [ATOLL_METRIC_FILES] = {"process_open_fds", GAUGE, {NULL}, NULL, "Descriptors of the daemon."},
    [ATOLL_METRIC_FILES_MAX] =
        {"process_max_fds", GAUGE, {NULL}, NULL, "Limit of process_open_fds."},
    [ATOLL_METRIC_START_TIME] = {"process_start_time_seconds",
                                 GAUGE,
                                 {NULL},
                                 NULL,
                                 "Start time of the daemon, in seconds since 1970."},
};

struct series {
    struct atoll_labels labels;
    uint16_t metric;
    uint16_t next; /* of the same metric: index + 1, 0 at the end */
    double value;  /* HISTOGRAM: the sum */
    uint64_t count;
    uint32_t buckets[BUCKETS_MAX];
};

#define KEPT_MAX 64

static struct series pool[ATOLL_METRICS_SERIES];
static uint16_t used;
static uint16_t slots[SLOTS];                              /* index + 1, 0: free */
static uint16_t first[ATOLL_METRICS], last[ATOLL_METRICS]; /* index + 1 */

static size_t hash(enum atoll_metric metric, const struct atoll_labels *labels)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ metric;

    for (size_t i = 0; i < ATOLL_METRIC_LABELS && labels->values[i]; i++)
        for (const char *p = labels->values[i];; p++) {
            h = (h ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
            if (*p == '\0')
                break;
        }
    return (size_t)(h ^ (h >> 29)) & (SLOTS - 1);
}

static bool matches(const struct series *s, enum atoll_metric metric,
                    const struct atoll_labels *labels)
{
    if (s->metric != metric)
        return false;
    for (size_t i = 0; i < ATOLL_METRIC_LABELS; i++) {
        const char *a = s->labels.values[i], *b = labels->values[i];
        if (a != b && (!a || !b || strcmp(a, b) != 0))
            return false;
    }
    return true;
}

/* The copies are never freed: series point to them. */
const char *atoll_metric_keep(const char *text)
{
    static char *kept[KEPT_MAX];
    size_t i = 0;

    while (i < KEPT_MAX && kept[i] && strcmp(kept[i], text) != 0)
        i++;
    if (i < KEPT_MAX && !kept[i])
        kept[i] = strdup(text);
    return i < KEPT_MAX && kept[i] ? kept[i] : "other";
}

static struct series *add_series(enum atoll_metric metric, const struct atoll_labels *labels,
                                 size_t slot)
{
    struct series *s;

    if (used == ATOLL_METRICS_SERIES)
        return NULL;
    s = &pool[used++];
    *s = (struct series){.labels = *labels, .metric = (uint16_t)metric};
    slots[slot] = used;
    if (last[metric])
        pool[last[metric] - 1].next = used;
    else
        first[metric] = used;
    last[metric] = used;
    return s;
}

static struct series *find(enum atoll_metric metric, const struct atoll_labels *labels)
{
    struct series *s;
    size_t slot = hash(metric, labels);

    for (; slots[slot]; slot = (slot + 1) & (SLOTS - 1))
        if (matches(&pool[slots[slot] - 1], metric, labels))
            return &pool[slots[slot] - 1];
    s = add_series(metric, labels, slot);
    /* The series of DROPPED itself always has room: it is created before all others. */
    if (!s && metric != ATOLL_METRIC_DROPPED)
        atoll_metric_add(ATOLL_METRIC_DROPPED, ATOLL_NO_LABELS, 1);
    return s;
}

static struct series *get(enum atoll_metric metric, const struct atoll_labels *labels)
{
    if (used == 0)
        (void)find(ATOLL_METRIC_DROPPED, ATOLL_NO_LABELS);
    return find(metric, labels);
}

void atoll_metric_add(enum atoll_metric metric, const struct atoll_labels *labels, double n)
{
    struct series *s = get(metric, labels);

    if (s)
        s->value += n;
}

void atoll_metric_set(enum atoll_metric metric, const struct atoll_labels *labels, double value)
{
    struct series *s = get(metric, labels);

    if (s)
        s->value = value;
}

void atoll_metric_observe(enum atoll_metric metric, const struct atoll_labels *labels, double value)
{
    const double *bounds = rows[metric].bounds;
    struct series *s = get(metric, labels);
    size_t i = 0;

    if (!s)
        return;
    while (bounds[i] > 0 && value > bounds[i])
        i++;
    if (bounds[i] > 0)
        s->buckets[i]++;
    s->count++;
    s->value += value;
}

/* Writing. */

static int put_value(struct atoll_buf *out, double value)
{
    if (value == floor(value) && fabs(value) < 1e15)
        return atoll_buf_appendf(out, " %.0f\n", value);
    return atoll_buf_appendf(out, " %.9g\n", value);
}

static int put_quoted(struct atoll_buf *out, const char *text)
{
    int r = 0;

    for (; r == 0 && *text; text++) {
        if (*text == '\n')
            r = atoll_buf_append(out, "\\n", 2);
        else if (*text == '"' || *text == '\\')
            r = atoll_buf_appendf(out, "\\%c", *text);
        else
            r = atoll_buf_append(out, text, 1);
    }
    return r;
}

/* Writes {a="b",le="0.5"}, or nothing if there are no labels. */
static int put_labels(struct atoll_buf *out, const struct series *s, const char *le)
{
    const struct row *row = &rows[s->metric];
    char before = '{';
    int r = 0;

    for (size_t i = 0; r == 0 && i < ATOLL_METRIC_LABELS && row->labels[i]; i++) {
        r = atoll_buf_appendf(out, "%c%s=\"", before, row->labels[i]);
        if (r == 0)
            r = put_quoted(out, s->labels.values[i] ? s->labels.values[i] : "");
        if (r == 0)
            r = atoll_buf_append(out, "\"", 1);
        before = ',';
    }
    if (r == 0 && le)
        r = atoll_buf_appendf(out, "%cle=\"%s\"", before, le);
    if (r == 0 && (le || before == ','))
        r = atoll_buf_append(out, "}", 1);
    return r;
}

static int put_sample(struct atoll_buf *out, const struct series *s, const char *suffix,
                      const char *le, double value)
{
    int r = atoll_buf_appendf(out, "%s%s", rows[s->metric].name, suffix);

    if (r == 0)
        r = put_labels(out, s, le);
    return r < 0 ? r : put_value(out, value);
}

static int put_histogram(struct atoll_buf *out, const struct series *s)
{
    const double *bounds = rows[s->metric].bounds;
    uint64_t below = 0;
    char le[24];
    int r = 0;

    for (size_t i = 0; r == 0 && bounds[i] > 0; i++) {
        below += s->buckets[i];
        (void)snprintf(le, sizeof(le), "%g", bounds[i]);
        r = put_sample(out, s, "_bucket", le, (double)below);
    }
    if (r == 0)
        r = put_sample(out, s, "_bucket", "+Inf", (double)s->count);
    if (r == 0)
        r = put_sample(out, s, "_sum", NULL, s->value);
    return r < 0 ? r : put_sample(out, s, "_count", NULL, (double)s->count);
}

/* Counters of other threads, until they are added to their series. */
#define NOTES_MAX 32
static struct note {
    enum atoll_metric metric;
    const char *label;
    double n;
} notes[NOTES_MAX];
static size_t note_count;
static pthread_mutex_t notes_lock = PTHREAD_MUTEX_INITIALIZER;

void atoll_metric_note(enum atoll_metric metric, const char *label, double n)
{
    size_t i = 0;

    (void)pthread_mutex_lock(&notes_lock);
    while (i < note_count && (notes[i].metric != metric || strcmp(notes[i].label, label) != 0))
        i++;
    if (i == note_count && note_count < NOTES_MAX)
        notes[note_count++] = (struct note){metric, label, 0};
    if (i < note_count)
        notes[i].n += n;
    (void)pthread_mutex_unlock(&notes_lock);
}

static void take_notes(void)
{
    (void)pthread_mutex_lock(&notes_lock);
    for (size_t i = 0; i < note_count; i++) {
        atoll_metric_add(notes[i].metric, ATOLL_LABELS(notes[i].label), notes[i].n);
        notes[i].n = 0;
    }
    (void)pthread_mutex_unlock(&notes_lock);
}

int atoll_metrics_write(struct atoll_buf *out)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    int r = 0;

    take_notes();
    for (size_t m = 0; r == 0 && m < ATOLL_METRICS; m++) {
        if (!first[m])
            continue;
        r = atoll_buf_appendf(out, "# HELP %s %s\n# TYPE %s %s\n", rows[m].name, rows[m].help,
                              rows[m].name, kinds[rows[m].kind]);
        for (uint16_t i = first[m]; r == 0 && i; i = pool[i - 1].next)
            r = rows[m].kind == HISTOGRAM
                    ? put_histogram(out, &pool[i - 1])
                    : put_sample(out, &pool[i - 1], "", NULL, pool[i - 1].value);
    }
    return r;
}

void atoll_metrics_reset(void)
{
    used = 0;
    memset(slots, 0, sizeof(slots));
    memset(first, 0, sizeof(first));
    memset(last, 0, sizeof(last));
}
