/*
 * PUT …/archive: unpacks the body, a tar archive, inside the sandbox (api/kit/tar_in.h).
 */
#include <errno.h>
#include <string.h>
#include "api/kit/tar_in.h"
#include "api/rest/file/files.h"
#include "api/rest/rest_internal.h"

static const struct {
    const char *name, *option;
} compressions[] = {{"none", ""},
                    {"gzip", "-z"},
                    {"xz", "-J"},
                    {"zstd", "--zstd"},
                    {"bzip2", "-j"}};

static int take_compression(const struct atoll_api_call *call, const char **ret_option,
                            struct atoll_error *err)
{
    const char *name = atoll_http_query(call->req, "compression");

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(compressions); i++)
        if (strcmp(name ? name : "none", compressions[i].name) == 0) {
            *ret_option = compressions[i].option;
            return 0;
        }
    return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                      "?compression= must be none, gzip, xz, zstd or bzip2 (got \"%.48s\")", name);
}

static void unpacked(void *arg, const struct atoll_error *error)
{
    if (error)
        atoll_api_fail(arg, error);
    else
        atoll_api_reply_empty(arg, 204);
}

void atoll_rest_archive_put(struct atoll_api_call *call, const uint8_t *body ATOLL_UNUSED,
                            size_t n ATOLL_UNUSED)
{
    struct atoll_rest_file_target t;
    struct atoll_tar_in what = {.compression = ""};
    struct atoll_error error;

    if (!atoll_rest_file_target(call, &t))
        return;
    if (take_compression(call, &what.compression, &error) < 0) {
        atoll_api_fail(call, &error);
        return;
    }
    what.dir = t.path;
    what.user = t.user;
    atoll_tar_in(call, &what, unpacked);
}
