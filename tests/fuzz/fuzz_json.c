/*
 * Bodies of requests through the decoder, with the tables and checks the API uses. The first byte
 * chooses the kind of request; what is accepted must keep what the tables promise.
 */
#include <string.h>
#include "api/rest/requests.h"
#include "api/rest/session/session_files.h"
#include "engine/artifact/artifacts.h"
#include "fuzz.h"

/* Whatever is refused is refused in words, and as the client's mistake. */
static void check_refusal(int r, const struct atoll_error *err)
{
    FUZZ_CHECK(r < 0);
    FUZZ_CHECK(err->kind == ATOLL_ERR_INVALID_ARGUMENT || err->kind == ATOLL_ERR_UNIMPLEMENTED);
    FUZZ_CHECK(strnlen(err->text, sizeof(err->text)) > 0);
    FUZZ_CHECK(strnlen(err->text, sizeof(err->text)) < sizeof(err->text));
}

static size_t count(const char *const *strings)
{
    size_t n = 0;

    while (strings && strings[n])
        n++;
    return n;
}

static void check_env(const char *const *env)
{
    FUZZ_CHECK(count(env) <= ATOLL_FIELDS_ENV);
    for (; env && *env; env++) {
        const char *equals = strchr(*env, '=');
        FUZZ_CHECK(equals && equals > *env);
    }
}

static int sandbox(struct atoll_body *body, struct atoll_error *err)
{
    struct atoll_rest_sandbox request = {0};
    struct atoll_field_set set = {atoll_rest_sandbox_fields, &request};
    struct atoll_options create = {0};
    int r = atoll_fields_decode(body, body->root, "", &set, 1, err);

    if (r == 0)
        r = atoll_rest_sandbox_check(&request, body, &create, err);
    if (r < 0)
        return r;
    FUZZ_CHECK(!create.template_name || strlen(create.template_name) <= 64);
    FUZZ_CHECK(create.limits.memory_bytes == 0 ||
               (create.limits.memory_bytes >= UINT64_C(8) << 20 &&
                create.limits.memory_bytes <= UINT64_C(1) << 40));
    FUZZ_CHECK(create.limits.cpu_millis <= 1024 * 1000);
    FUZZ_CHECK(create.limits.pids == 0 || create.limits.pids >= 4);
    FUZZ_CHECK(create.limits.inodes <= 1000000000);
    FUZZ_CHECK(!create.metadata_json || *create.metadata_json == '{');
    FUZZ_CHECK(count(create.artifacts) <= ATOLL_ARTIFACTS_PATTERNS_MAX);
    for (const char *const *p = create.artifacts; p && *p; p++)
        FUZZ_CHECK(**p && **p != '/' && !strstr(*p, "/../"));
    check_env(create.env);
    return 0;
}

static int command(struct atoll_body *body, struct atoll_error *err)
{
    struct atoll_rest_exec request = {0};
    struct atoll_field_set set = {atoll_rest_exec_fields, &request};
    struct atoll_exec_start start;
    struct atoll_rest_input input;
    int r = atoll_fields_decode(body, body->root, "", &set, 1, err);

    if (r == 0)
        r = atoll_rest_exec_check(&request, &start, &input, err);
    if (r < 0)
        return r;
    FUZZ_CHECK(!start.argv || (start.argv[0] && *start.argv[0]));
    FUZZ_CHECK(start.cols >= 1 && start.cols <= 65535 && start.rows >= 1 && start.rows <= 65535);
    FUZZ_CHECK(!start.user || (*start.user && strlen(start.user) <= 64));
    FUZZ_CHECK(!start.cwd || strlen(start.cwd) <= 4095);
    FUZZ_CHECK(!input.open || !input.text);
    check_env(start.env);
    return 0;
}

/* As POST /api/run: two tables, one of which gets the field both know. */
static int run(struct atoll_body *body, struct atoll_error *err)
{
    struct atoll_rest_sandbox box = {0};
    struct atoll_rest_exec exec = {0};
    struct atoll_field_set sets[] = {{atoll_rest_sandbox_fields, &box},
                                     {atoll_rest_exec_fields, &exec}};
    int r = atoll_fields_decode(body, body->root, "", sets, ATOLL_ARRAY_LEN(sets), err);

    if (r == 0)
        FUZZ_CHECK(!exec.env);
    return r;
}

static int signal_of(struct atoll_body *body, struct atoll_error *err)
{
    struct atoll_rest_signal request = {0};
    struct atoll_field_set set = {atoll_rest_signal_fields, &request};
    int signo, r = atoll_fields_decode(body, body->root, "", &set, 1, err);

    if (r == 0)
        r = atoll_rest_signal_check(&request, &signo, err);
    if (r == 0)
        FUZZ_CHECK(signo >= 1 && signo <= 64);
    return r;
}

static int size_of(struct atoll_body *body, struct atoll_error *err)
{
    struct atoll_rest_size request = {0};
    struct atoll_field_set set = {atoll_rest_size_fields, &request};
    int r = atoll_fields_decode(body, body->root, "", &set, 1, err);

    return r < 0 ? r : atoll_rest_size_check(&request, err);
}

static int files(struct atoll_body *body, struct atoll_error *err)
{
    struct atoll_rest_session_files ret;
    int r = atoll_rest_session_files_decode(json_object_get(body->root, "files"), body, &ret, err);

    for (size_t i = 0; r == 0 && i < ret.count; i++) {
        FUZZ_CHECK(*ret.files[i].path && strlen(ret.files[i].path) <= 4095);
        FUZZ_CHECK(ret.files[i].mode <= 07777);
        FUZZ_CHECK(ret.files[i].bytes);
    }
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int (*const kinds[])(struct atoll_body *, struct atoll_error *) = {
        sandbox, command, run, signal_of, size_of, files};
    struct atoll_body body;
    struct atoll_error err = {0};
    int r;

    if (size < 1)
        return 0;
    r = atoll_body_parse(&body, data + 1, size - 1, &err);
    if (r == 0)
        r = kinds[data[0] % ATOLL_ARRAY_LEN(kinds)](&body, &err);
    if (r < 0)
        check_refusal(r, &err);
    atoll_body_done(&body);
    return 0;
}
