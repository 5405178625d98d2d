/*
 * resize: other limits of memory and CPU. The texts are Daytona's, which clients compare.
 */
#include <math.h>
#include "api/daytona/control_create.h"

#define GIB 1073741824.0

struct resize {
    const json_t *cpu, *memory, *disk;
};

#define AT(member) offsetof(struct resize, member)
static const struct atoll_field fields[] = {
    {"cpu", ATOLL_FIELD_JSON, AT(cpu), 0, 0, NULL, 0},
    {"memory", ATOLL_FIELD_JSON, AT(memory), 0, 0, NULL, 0},
    {"disk", ATOLL_FIELD_JSON, AT(disk), 0, 0, NULL, 0},
    ATOLL_FIELDS_TOLERANT,
    {0},
};
#undef AT

static int take(const struct resize *q, struct atoll_limits *ret, struct atoll_error *err)
{
    double cpu = 0, memory = 0, disk = 0;
    int r = atoll_daytona_take_size(q->cpu, "cpu", &cpu, err);

    if (r == 0)
        r = atoll_daytona_take_size(q->memory, "memory", &memory, err);
    if (r == 0)
        r = atoll_daytona_take_size(q->disk, "disk", &disk, err);
    *ret = (struct atoll_limits){.cpu_millis = (uint32_t)(cpu * 1000),
                                 .memory_bytes = (uint64_t)(memory * GIB),
                                 .disk_bytes = (uint64_t)(disk * GIB)};
    return r;
}

static int refuse(struct atoll_error *err, const char *text)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, 0, "%s", text);
}

/* What is the same is not a change: clients see sizes in whole GiB. */
static bool is_same(uint64_t want, uint64_t have, double unit)
{
    return want == 0 || want == have || ceil((double)have / unit) == (double)want / unit;
}

static int check(const struct atoll_sandbox_view *v, struct atoll_limits *want,
                 struct atoll_error *err)
{
    const struct atoll_limits *have = &v->options.limits;
    bool runs = v->state == ATOLL_SANDBOX_RUNNING;

    want->cpu_millis = is_same(want->cpu_millis, have->cpu_millis, 1000) ? 0 : want->cpu_millis;
    want->memory_bytes =
        is_same(want->memory_bytes, have->memory_bytes, GIB) ? 0 : want->memory_bytes;
    want->disk_bytes = is_same(want->disk_bytes, have->disk_bytes, GIB) ? 0 : want->disk_bytes;
    if (!runs && v->state != ATOLL_SANDBOX_STOPPED)
        return refuse(err, "Sandbox must be in started or stopped state to resize");
    if (!want->cpu_millis && !want->memory_bytes && !want->disk_bytes)
        return refuse(err, "No resource changes specified - sandbox is already at the desired "
                           "configuration");
    if (want->disk_bytes && runs)
        return refuse(err, "Disk resize can only be performed on a stopped sandbox");
    if (want->disk_bytes && want->disk_bytes < have->disk_bytes)
        return refuse(err, "Sandbox disk size cannot be decreased");
    if (want->disk_bytes)
        return atoll_fail(
            err, ATOLL_ERR_UNIMPLEMENTED, 0,
            "the size of a disk is fixed when the sandbox is created: make a snapshot of it, "
            "with that as the image another snapshot with a larger disk, and a sandbox from it");
    if (runs && want->cpu_millis && want->cpu_millis < have->cpu_millis)
        return refuse(err, "Sandbox must be in stopped state to decrease the number of CPU cores");
    if (runs && want->memory_bytes && want->memory_bytes < have->memory_bytes)
        return refuse(err, "Sandbox must be in stopped state to decrease memory");
    return 0;
}

void atoll_daytona_resize(struct atoll_api_call *call, const uint8_t *bytes, size_t n)
{
    const struct atoll_sandbox *sandbox = atoll_engine_find(call->engine, call->params.id);
    struct atoll_sandbox_view view = {0};
    struct atoll_limits want = {0};
    struct resize q = {0};
    struct atoll_error error;
    struct atoll_body body;
    int r = atoll_body_decode(&body, bytes, n, fields, &q, &error);

    if (r == 0)
        r = take(&q, &want, &error);
    atoll_body_done(&body);
    if (!sandbox) {
        atoll_daytona_no_sandbox(call);
        return;
    }
    atoll_sandbox_get(sandbox, &view);
    if (r == 0)
        r = check(&view, &want, &error);
    if (r < 0)
        atoll_api_fail(call, &error);
    else
        atoll_engine_resize(call->engine, call->params.id, &want, atoll_daytona_done, call);
}
