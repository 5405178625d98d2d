/*
 * What a Docker engine answers: streams of progress, the output of processes, descriptions of images,
 * containers and itself, refusals; and the names of images. The first byte chooses which, the second the
 * size of the pieces, on which nothing may depend.
 */
#include <errno.h>
#include <string.h>
#include "base/buf.h"
#include "base/text.h"
#include "fuzz.h"
#include "provider/docker/body.h"
#include "provider/docker/http_internal.h"
#include "provider/docker/stream.h"

static void on_line(void *arg, const char *text)
{
    (void)arg;
    FUZZ_CHECK(*text && !strpbrk(text, "\r\n"));
}

static int run_progress(const uint8_t *data, size_t size, size_t piece,
                        struct atoll_docker_progress *p, struct atoll_error *err)
{
    int r = 0;

    atoll_docker_progress_init(p, on_line, NULL);
    for (size_t at = 0; at < size && r == 0; at += piece)
        r = atoll_docker_progress_take(p, data + at, ATOLL_MIN(piece, size - at));
    return r < 0 ? r : atoll_docker_progress_end(p, err);
}

static void fuzz_progress(const uint8_t *data, size_t size, size_t piece)
{
    struct atoll_docker_progress cut, whole;
    struct atoll_error one = {0}, two = {0};
    int r = run_progress(data, size, piece, &cut, &one);

    FUZZ_CHECK(r == run_progress(data, size, size + 1, &whole, &two));
    FUZZ_CHECK(one.kind == two.kind && strcmp(one.text, two.text) == 0);
    FUZZ_CHECK(strcmp(cut.id, whole.id) == 0 && cut.failed == whole.failed);
    if (one.kind != ATOLL_ERR_NONE)
        atoll_docker_judge_pull(&one);
    atoll_docker_progress_done(&cut);
    atoll_docker_progress_done(&whole);
}

static int run_demux(const uint8_t *data, size_t size, size_t piece, struct atoll_buf *out)
{
    struct atoll_docker_demux demux = {0};

    atoll_buf_init(out, (size_t)16 * 1024 * 1024);
    for (size_t at = 0; at < size; at += piece) {
        const uint8_t *bytes = data + at;
        size_t n = ATOLL_MIN(piece, size - at), len;
        int stream;
        while (n > 0) {
            ssize_t used = atoll_docker_demux_next(&demux, bytes, n, &stream, &len);
            if (used < 0)
                return (int)used;
            FUZZ_CHECK(used > 0 && (size_t)used <= n && len <= (size_t)used);
            FUZZ_CHECK(len == 0 || (stream >= 0 && stream <= ATOLL_DOCKER_STDERR));
            for (size_t i = 0; i < len; i++) {
                const uint8_t pair[2] = {(uint8_t)stream, bytes[(size_t)used - len + i]};
                FUZZ_CHECK(atoll_buf_append(out, pair, 2) == 0);
            }
            bytes += used;
            n -= (size_t)used;
        }
    }
    return 0;
}

static void fuzz_demux(const uint8_t *data, size_t size, size_t piece)
{
    struct atoll_buf cut, whole;

    FUZZ_CHECK(run_demux(data, size, piece, &cut) == run_demux(data, size, size + 1, &whole));
    FUZZ_CHECK(atoll_buf_size(&cut) == atoll_buf_size(&whole));
    FUZZ_CHECK(atoll_buf_size(&cut) == 0 ||
               memcmp(atoll_buf_head(&cut), atoll_buf_head(&whole), atoll_buf_size(&cut)) == 0);
    atoll_buf_done(&cut);
    atoll_buf_done(&whole);
}

#define CHECK_ENDED(text) FUZZ_CHECK(strnlen(text, sizeof(text)) < sizeof(text))

static void fuzz_answers(const uint8_t *data, size_t size, size_t piece)
{
    json_t *json = json_loadb((const char *)data, size, 0, NULL);
    struct atoll_docker_image image;
    struct atoll_docker_info info;
    struct atoll_provider_inspection look;
    struct atoll_provider_stats stats;
    struct atoll_error err = {0};
    char id[ATOLL_ID_LEN + 1];

    (void)piece;
    if (atoll_docker_image_parse(json, &image, &err) == 0) {
        FUZZ_CHECK(*image.id && image.volume_count <= ATOLL_DOCKER_VOLUMES_MAX);
        CHECK_ENDED(image.id);
        CHECK_ENDED(image.user);
    } else {
        FUZZ_CHECK(err.kind == ATOLL_ERR_FAILED_PRECONDITION);
    }
    atoll_docker_info_parse(json, &info);
    CHECK_ENDED(info.version);
    CHECK_ENDED(info.storage);
    atoll_docker_inspect_parse(json, &look);
    CHECK_ENDED(look.cause);
    FUZZ_CHECK(look.exit.signal >= 0 && look.exit.signal <= 64);
    atoll_docker_stats_parse(json, &stats);
    FUZZ_CHECK(stats.memory_peak_bytes >= stats.memory_bytes);
    if (atoll_docker_entry_id(json, id))
        FUZZ_CHECK(atoll_text_is_id(id));
    json_decref(json);
}

static void fuzz_refusal(const uint8_t *data, size_t size, size_t piece)
{
    static const long statuses[] = {400, 401, 404, 409, 418, 429, 500, 503};
    struct atoll_error err = {0};

    FUZZ_CHECK(atoll_docker_http_refused(statuses[piece % ATOLL_ARRAY_LEN(statuses)],
                                         (const char *)data, size, &err) < 0);
    FUZZ_CHECK(err.kind != ATOLL_ERR_NONE);
    CHECK_ENDED(err.text);
    atoll_docker_judge_pull(&err);
}

static void fuzz_name(const uint8_t *data, size_t size, size_t piece)
{
    char *name = strndup((const char *)data, size), host[256];

    (void)piece;
    FUZZ_CHECK(name);
    if (atoll_docker_is_image_name(name))
        FUZZ_CHECK(!strpbrk(name, "?#% \\\"\r\n") && !strstr(name, "..") && name[0] != '/');
    FUZZ_CHECK(*atoll_docker_registry_of(name, host) && strlen(host) < sizeof(host));
    free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const kinds[])(const uint8_t *, size_t, size_t) = {
        fuzz_progress, fuzz_demux, fuzz_answers, fuzz_refusal, fuzz_name};

    if (size < 2)
        return 0;
    kinds[data[0] % ATOLL_ARRAY_LEN(kinds)](data + 2, size - 2, (size_t)data[1] + 1);
    return 0;
}
