/*
 * /metrics: the counters, and gauges that are computed for each scrape.
 */
#include "api/metrics.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/resource.h>
#include "api/api_internal.h"
#include "api/preview.h"
#include "api/rest/rest_internal.h"
#include "engine/provider/providers.h"
#include "task/task.h"

#define TEXT_MAX ((size_t)4 * 1024 * 1024)

/* Sets the gauges of one provider. Returns the number of its sandboxes with a silent agent. */
static size_t gather_provider(struct atoll_engine *engine, const char *provider)
{
    size_t counts[ATOLL_SANDBOX_STATES], silent;

    (void)atoll_engine_count(engine, NULL, provider, counts, &silent);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(counts); i++)
        atoll_metric_set(
            ATOLL_METRIC_SANDBOXES,
            ATOLL_LABELS(provider, atoll_sandbox_state_name((enum atoll_sandbox_state)i)),
            (double)counts[i]);
    return silent;
}

static void gather_promises(struct atoll_engine *engine)
{
    static const struct {
        const char *what;
        double unit;
    } promises[] = {{"memory", 1}, {"cpus", 1000}, {"disk", 1}};
    struct atoll_usage all, any;
    uint64_t largest[3];

    atoll_engine_usage(engine, NULL, &all);
    atoll_engine_usage(engine, "", &any);
    atoll_engine_largest(engine, largest);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(promises); i++) {
        const char *what = promises[i].what;
        double unit = promises[i].unit;

        atoll_metric_set(ATOLL_METRIC_PROMISED, ATOLL_LABELS(what, "all"),
                         (double)all.promised[i] / unit);
        atoll_metric_set(ATOLL_METRIC_PROMISED, ATOLL_LABELS(what, "largest_tenant"),
                         (double)largest[i] / unit);
        atoll_metric_set(ATOLL_METRIC_PROMISED_MOST, ATOLL_LABELS(what, "all"),
                         (double)all.promised_most[i] / unit);
        atoll_metric_set(ATOLL_METRIC_PROMISED_MOST, ATOLL_LABELS(what, "tenant"),
                         (double)any.promised_most[i] / unit);
    }
    atoll_metric_set(ATOLL_METRIC_CREATING, ATOLL_NO_LABELS, (double)all.creates);
    atoll_metric_set(ATOLL_METRIC_SANDBOXES_MOST, ATOLL_NO_LABELS, (double)all.sandboxes_most);
}

/* Learned classes are added up as "learned": what requests name does not become a label. */
static void gather_pool(const struct atoll_engine *engine)
{
    struct atoll_pool_view view;
    double wanted = 0, ready = 0;
    size_t pos = 0;

    while (atoll_pool_next(engine, &pos, &view)) {
        if (!*view.environment) {
            wanted += view.target;
            ready += view.ready;
            continue;
        }
        atoll_metric_set(ATOLL_METRIC_POOL, ATOLL_LABELS(view.environment, "wanted"), view.target);
        atoll_metric_set(ATOLL_METRIC_POOL, ATOLL_LABELS(view.environment, "ready"), view.ready);
        atoll_metric_set(ATOLL_METRIC_POOL_BYTES, ATOLL_LABELS(view.environment),
                         (double)view.memory_bytes);
    }
    atoll_metric_set(ATOLL_METRIC_POOL, ATOLL_LABELS("learned", "wanted"), wanted);
    atoll_metric_set(ATOLL_METRIC_POOL, ATOLL_LABELS("learned", "ready"), ready);
}

static void gather_sandboxes(struct atoll_engine *engine)
{
    struct atoll_provider_view provider;
    const struct atoll_offload_counts files = atoll_engine_offload(engine);
    size_t pos = 0, silent = 0, creates, execs;

    while (atoll_providers_next(engine, &pos, &provider))
        silent += gather_provider(engine, provider.name);
    atoll_metric_set(ATOLL_METRIC_AGENTS_SILENT, ATOLL_NO_LABELS, (double)silent);
    gather_promises(engine);
    gather_pool(engine);
    atoll_engine_queue(engine, &creates, &execs);
    atoll_metric_set(ATOLL_METRIC_QUEUE, ATOLL_LABELS("create"), (double)creates);
    atoll_metric_set(ATOLL_METRIC_QUEUE, ATOLL_LABELS("exec"), (double)execs);
    atoll_metric_set(ATOLL_METRIC_FILE_JOBS, ATOLL_LABELS("waiting"), (double)files.waiting);
    atoll_metric_set(ATOLL_METRIC_FILE_JOBS, ATOLL_LABELS("running"), (double)files.running);
    atoll_metric_set(ATOLL_METRIC_FILE_HELD, ATOLL_NO_LABELS, (double)files.held);
}

static void set_kept(const char *what, uint64_t bytes, uint64_t max_bytes)
{
    atoll_metric_set(ATOLL_METRIC_KEPT_BYTES, ATOLL_LABELS(what), (double)bytes);
    atoll_metric_set(ATOLL_METRIC_KEPT_BYTES_MAX, ATOLL_LABELS(what), (double)max_bytes);
}

static void gather_disk(const struct atoll_engine *engine)
{
    struct atoll_disk_view disk;

    atoll_engine_disk(engine, &disk);
    atoll_metric_set(ATOLL_METRIC_STORE_BYTES, ATOLL_LABELS("database"), (double)disk.store_bytes);
    atoll_metric_set(ATOLL_METRIC_STORE_BYTES, ATOLL_LABELS("log"), (double)disk.log_bytes);
    set_kept("journals", disk.journal_bytes, disk.journal_max_bytes);
    set_kept("held output", disk.held_bytes, disk.held_max_bytes);
    set_kept("artifacts", disk.artifact_bytes, disk.artifact_max_bytes);
    set_kept("ended", disk.ended_bytes, disk.ended_max_bytes);
    set_kept("ended output", disk.ended_output_bytes, disk.ended_output_max_bytes);
    atoll_metric_set(ATOLL_METRIC_ENDED_KEPT, ATOLL_NO_LABELS, (double)disk.ended_count);
    if (disk.pool_max_bytes > 0)
        set_kept("disk pool", disk.pool_bytes, disk.pool_max_bytes);
    if (disk.free_bytes != UINT64_MAX)
        atoll_metric_set(ATOLL_METRIC_DISK_FREE, ATOLL_NO_LABELS, (double)disk.free_bytes);
}

static void gather_templates(struct atoll_engine *engine)
{
    const struct atoll_template_usage usage = atoll_templates_usage(engine);

    atoll_metric_set(ATOLL_METRIC_TEMPLATES, ATOLL_LABELS("versions"), (double)usage.versions);
    atoll_metric_set(ATOLL_METRIC_TEMPLATES, ATOLL_LABELS("tags"), (double)usage.tags);
    atoll_metric_set(ATOLL_METRIC_TEMPLATES, ATOLL_LABELS("layers"), (double)usage.layers);
    atoll_metric_set(ATOLL_METRIC_TEMPLATES, ATOLL_LABELS("cached steps"), (double)usage.steps);
    atoll_metric_set(ATOLL_METRIC_TEMPLATES_REMOVED, ATOLL_LABELS("versions"),
                     (double)usage.removed_versions);
    atoll_metric_set(ATOLL_METRIC_TEMPLATES_REMOVED, ATOLL_LABELS("layers"),
                     (double)usage.removed_layers);
    atoll_metric_set(ATOLL_METRIC_TEMPLATES_REMOVED, ATOLL_LABELS("cached steps"),
                     (double)usage.removed_steps);
    atoll_metric_set(ATOLL_METRIC_KEPT_BYTES, ATOLL_LABELS("layers"), (double)usage.layer_bytes);
    set_kept("build cache", usage.step_bytes, usage.step_max_bytes);
    set_kept("cache mounts", usage.mount_bytes, usage.mount_max_bytes);
}

static void gather_audit(const struct atoll_audit *audit)
{
    uint64_t bytes, max_bytes;

    if (!audit)
        return;
    atoll_audit_sizes(audit, &bytes, &max_bytes);
    set_kept("audit", bytes, max_bytes);
}

static size_t count_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;

    while (dir && readdir(dir))
        n++;
    if (dir)
        (void)closedir(dir);
    return n > 3 ? n - 3 : 0; /* exclude ".", ".." and the directory itself */
}

static double resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (file && fscanf(file, "%*u %llu", &pages) != 1)
        pages = 0;
    if (file)
        (void)fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* Memory in use, without free blocks inside the allocator: this is where a leak shows. */
static double heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)info.uordblks + (double)info.hblkhd;
}

static void gather_tasks(struct atoll_tasks *tasks)
{
    for (size_t i = ATOLL_TASK_WAITING; tasks && i <= ATOLL_TASK_RUNNING; i++)
        atoll_metric_set(ATOLL_METRIC_TASKS,
                         ATOLL_LABELS(atoll_task_state_name((enum atoll_task_state)i)),
                         (double)atoll_tasks_count(tasks, (enum atoll_task_state)i));
}

static void gather_process(void)
{
    struct rlimit files = {0};
    struct rusage usage = {0};

    (void)getrusage(RUSAGE_SELF, &usage);
    (void)getrlimit(RLIMIT_NOFILE, &files);
    atoll_metric_set(ATOLL_METRIC_CPU_SECONDS, ATOLL_NO_LABELS,
                     (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
    atoll_metric_set(ATOLL_METRIC_MEMORY, ATOLL_NO_LABELS, resident_bytes());
    atoll_metric_set(ATOLL_METRIC_HEAP, ATOLL_NO_LABELS, heap_bytes());
    atoll_metric_set(ATOLL_METRIC_FILES, ATOLL_NO_LABELS, (double)count_files());
    atoll_metric_set(ATOLL_METRIC_FILES_MAX, ATOLL_NO_LABELS, (double)files.rlim_cur);
}

void atoll_rest_metrics(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                        size_t n ATOLL_UNUSED)
{
    struct atoll_error error;
    struct atoll_buf text;
    int r;

    if (!atoll_api_allow_near(call))
        return;
    atoll_metric_set(ATOLL_METRIC_BUILD, ATOLL_LABELS(ATOLL_VERSION), 1);
    atoll_metric_set(ATOLL_METRIC_START_TIME, ATOLL_NO_LABELS,
                     (double)call->api->started_unix_ms / 1e3);
    atoll_metric_set(ATOLL_METRIC_PREVIEWS_ACTIVE, ATOLL_NO_LABELS,
                     (double)atoll_preview_active(call->api->preview));
    gather_sandboxes(call->engine);
    gather_disk(call->engine);
    gather_templates(call->engine);
    gather_audit(call->api->config.audit);
    gather_tasks(call->api->config.tasks);
    gather_process();
    atoll_buf_init(&text, TEXT_MAX);
    r = atoll_metrics_write(&text);
    if (r < 0) {
        (void)atoll_fail_errno(&error, -r, "metrics");
        atoll_api_fail(call, &error);
    } else {
        atoll_api_reply_text(call, 200, "text/plain; version=0.0.4; charset=utf-8",
                             atoll_buf_head(&text), atoll_buf_size(&text));
    }
    atoll_buf_done(&text);
}
