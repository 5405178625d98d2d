/*
 * The patterns of a sandbox and the session it belongs to. Both are stored with the sandbox.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/text.h"
#include "engine/artifact/artifacts_internal.h"

#define JOINED_MAX (ATOLL_ARTIFACTS_PATTERNS_MAX * (ATOLL_ARTIFACTS_PATTERN_BYTES + 1))

static int refuse(struct atoll_error *err, const char *pattern, const char *what)
{
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "artifacts: \"%.80s\" %s", pattern,
                      what);
}

static bool has_control(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return true;
    return false;
}

static int check_pattern(const char *pattern, struct atoll_error *err)
{
    if (!*pattern || strlen(pattern) > ATOLL_ARTIFACTS_PATTERN_BYTES)
        return refuse(err, pattern, "must have 1 to 256 bytes");
    if (*pattern == ':' && strcmp(pattern, ATOLL_ARTIFACTS_GITIGNORE) != 0)
        return refuse(err, pattern, "begins with a colon; only \":gitignore\" does");
    if (*pattern == '/')
        return refuse(err, pattern,
                      "must be a path below the working directory, without the "
                      "first slash");
    if (has_control(pattern))
        return refuse(err, pattern, "holds a control character");
    for (const char *p = pattern; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL) {
        size_t n = strcspn(p, "/");
        if ((n == 0 && *p) || (n == 1 && *p == '.') || (n == 2 && memcmp(p, "..", 2) == 0))
            return refuse(err, pattern, "must not have empty, \".\" or \"..\" segments");
    }
    return 0;
}

int atoll_artifacts_check(const char *const *patterns, struct atoll_error *err)
{
    size_t count = atoll_strings_count(patterns);

    if (count > ATOLL_ARTIFACTS_PATTERNS_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "artifacts: at most %d patterns for a sandbox",
                          ATOLL_ARTIFACTS_PATTERNS_MAX);
    for (size_t i = 0; i < count; i++) {
        int r = check_pattern(patterns[i], err);
        if (r < 0)
            return r;
    }
    return 0;
}

int atoll_artifacts_accept(const struct atoll_engine *engine, const char *const *patterns,
                           struct atoll_error *err)
{
    int r = atoll_artifacts_check(patterns, err);

    if (r == 0 && atoll_strings_count(patterns) > 0 && engine->config.artifacts_max_bytes == 0)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EOPNOTSUPP,
                       "this daemon keeps no artifacts (its artifacts-max is 0)");
    return r;
}

static int persist(struct atoll_sandbox *s, struct atoll_error *err)
{
    struct atoll_buf joined;
    int r = 0;

    atoll_buf_init(&joined, JOINED_MAX);
    for (size_t i = 0; s->options.artifacts && s->options.artifacts[i] && r == 0; i++)
        r = atoll_buf_appendf(&joined, "%s%s", i ? "\n" : "", s->options.artifacts[i]);
    if (r < 0)
        r = atoll_fail(err, ATOLL_ERR_UNAVAILABLE, -r, "no memory for the patterns; try again");
    else
        r = atoll_store_put_artifact_request(s->engine->config.store,
                                             &(struct atoll_store_artifact_request){
                                                 s->spec.id,
                                                 s->options.session_id ? s->options.session_id : "",
                                                 atoll_buf_str(&joined)},
                                             err);
    s->stored = s->stored || r == 0; /* also if it fails before its own row is written */
    atoll_buf_done(&joined);
    return r;
}

int atoll_artifacts_apply_request(struct atoll_sandbox *s, struct atoll_error *err)
{
    if (atoll_strings_count(s->options.artifacts) == 0)
        atoll_options_set_strings(&s->options.artifacts, NULL);
    return s->options.artifacts || s->options.session_id ? persist(s, err) : 0;
}

static void append(struct atoll_sandbox *s, const char *const *patterns)
{
    const char *const *had = s->options.artifacts;
    const char *all[ATOLL_ARTIFACTS_PATTERNS_MAX + 1];
    char **grown;
    size_t n = 0;

    for (; had && *had; had++)
        all[n++] = *had;
    for (; *patterns; patterns++)
        all[n++] = *patterns;
    all[n] = NULL;
    grown = atoll_strings_dup(all);
    if (!grown)
        abort(); /* a small object: the daemon is crash-only */
    atoll_options_set_strings(&s->options.artifacts, grown);
}

int atoll_artifacts_want(struct atoll_engine *engine, const char *sandbox_id,
                         const char *const *patterns, struct atoll_error *err)
{
    struct atoll_sandbox *s = atoll_engine_find(engine, sandbox_id);
    int r = atoll_artifacts_accept(engine, patterns, err);

    if (r < 0 || atoll_strings_count(patterns) == 0)
        return r;
    if (!s)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "there is no sandbox %.32s",
                          sandbox_id);
    if (atoll_sandbox_state(s) == ATOLL_SANDBOX_STOPPING)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EAGAIN,
                          "sandbox %s is being destroyed: no more artifacts can be requested",
                          sandbox_id);
    if (atoll_strings_count(s->options.artifacts) + atoll_strings_count(patterns) >
        ATOLL_ARTIFACTS_PATTERNS_MAX)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG,
                          "artifacts: at most %d patterns for a sandbox",
                          ATOLL_ARTIFACTS_PATTERNS_MAX);
    append(s, patterns);
    return persist(s, err);
}

void atoll_artifacts_unwant(struct atoll_engine *engine, const char *sandbox_id)
{
    struct atoll_error err;
    struct atoll_sandbox *s = atoll_engine_find(engine, sandbox_id);

    if (!s || !s->options.artifacts)
        return;
    atoll_options_set_strings(&s->options.artifacts, NULL);
    if (persist(s, &err) < 0)
        atoll_log(ATOLL_LOG_ERROR, "state not stored", "what", "artifacts to keep", "id",
                  s->spec.id, "error", err.text, NULL);
}

/* One pattern per line; NULL when there are none. */
static char **split(const char *joined)
{
    char **patterns = calloc(ATOLL_ARTIFACTS_PATTERNS_MAX + 1, sizeof(*patterns));

    if (!patterns)
        abort();
    for (size_t i = 0; *joined && i < ATOLL_ARTIFACTS_PATTERNS_MAX; i++) {
        size_t n = strcspn(joined, "\n");
        patterns[i] = strndup(joined, n);
        if (!patterns[i])
            abort();
        joined += n + (joined[n] == '\n');
    }
    return *patterns ? patterns : atoll_strings_free(patterns);
}

static int load_row(void *arg, const struct atoll_store_artifact_request *row,
                    struct atoll_error *err)
{
    struct atoll_engine *engine = arg;
    struct atoll_sandbox *s = atoll_map_get(&engine->sandboxes, row->sandbox_id);

    (void)err;
    if (!s)
        return 0;
    if (*row->session_id && !(s->options.session_id = strdup(row->session_id)))
        abort();
    s->options.artifacts = (const char *const *)split(row->patterns);
    return 0;
}

int atoll_artifacts_load_requests(struct atoll_engine *engine, struct atoll_error *err)
{
    int r = atoll_store_sweep_artifact_requests(engine->config.store, err);

    return r < 0 ? r
                 : atoll_store_each_artifact_request(engine->config.store, load_row, engine, err);
}
