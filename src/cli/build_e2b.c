#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "cli/build.h"
#include "image/e2b_toml.h"

/* Docker's name for it comes second, as for E2B. */
static const char *const dockerfiles[] = {"e2b.Dockerfile", "Dockerfile"};

static int read_toml(const char *dir, struct atoll_e2b_toml *toml, struct atoll_error *err)
{
    ATOLL_AUTOFREE char *path = NULL;
    struct atoll_buf text;
    int r;

    if (asprintf(&path, "%s/e2b.toml", dir) < 0)
        abort();
    atoll_buf_init(&text, 4 * ATOLL_E2B_TOML_MAX);
    r = atoll_cli_build_read(path, &text, err);
    if (r == 0) {
        r = atoll_e2b_toml_parse((const char *)atoll_buf_head(&text), atoll_buf_size(&text), toml,
                                 err);
        r = r < 0 ? atoll_wrap(err, "%.200s", path) : 0;
    }
    atoll_buf_done(&text);
    return r;
}

static char *find_dockerfile(const char *dir, const char *named)
{
    char *path = NULL;

    if (named)
        return asprintf(&path, "%s/%s", dir, named) < 0 ? NULL : path;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(dockerfiles); i++) {
        if (asprintf(&path, "%s/%s", dir, dockerfiles[i]) < 0)
            return NULL;
        if (access(path, R_OK) == 0 || i + 1 == ATOLL_ARRAY_LEN(dockerfiles))
            break;
        free(path);
    }
    return path;
}

int atoll_cli_build_e2b(struct atoll_cli *cli, const char *network, char *dir,
                        struct atoll_error *err)
{
    struct atoll_e2b_toml toml = {0};
    struct atoll_cli_build build = {.network = network ? network : "bridge"};
    ATOLL_AUTOFREE char *file = NULL;
    int r = read_toml(dir, &toml, err);

    if (r == 0 && !toml.template_name && !toml.template_id)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                       "%.200s/e2b.toml has no template_name", dir);
    if (r == 0) {
        file = find_dockerfile(dir, toml.dockerfile);
        build.tag = toml.template_name ? toml.template_name : toml.template_id;
        build.file = file;
        build.start = toml.start_cmd;
        build.ready = toml.ready_cmd;
        build.sandbox_cpus = toml.cpu_count;
        build.sandbox_memory_mb = toml.memory_mb;
        r = atoll_cli_build_dir(cli, &build, dir, err);
    }
    atoll_e2b_toml_done(&toml);
    return r;
}
