/*
 * Sandboxes from Dockerfiles. An image alone is pulled; everything else is built.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "api/api_internal.h"
#include "api/daytona/builds.h"
#include "api/kit/network_mode.h"
#include "base/text.h"
#include "image/dockerfile.h"

/* Starting a build. */

static int append_list(struct atoll_buf *text, const char *word, const char *const *list)
{
    int r = atoll_buf_appendf(text, "\n%s [", word);

    for (size_t i = 0; r == 0 && list[i]; i++) {
        r = atoll_buf_append(text, i ? "," : "", i ? 1 : 0);
        if (r == 0)
            r = atoll_text_json_quote(text, list[i], strlen(list[i]));
    }
    return r == 0 ? atoll_buf_append(text, "]", 1) : r;
}

/* The Dockerfile with what the request adds. */
static int write_text(const struct atoll_daytona_definition *d, struct atoll_buf *text)
{
    int r = atoll_buf_append(text, d->dockerfile, strlen(d->dockerfile));

    if (r == 0 && d->entrypoint)
        r = append_list(text, "ENTRYPOINT", d->entrypoint);
    if (r == 0 && d->disk_gib)
        r = atoll_buf_appendf(text, "\nLABEL " ATOLL_DAYTONA_DISK_LABEL "=%u", d->disk_gib);
    return r == 0 ? atoll_buf_append(text, "\n", 1) : r;
}

static int start_parsed(const struct atoll_api_call *call, const struct atoll_daytona_definition *d,
                        const char *text, const struct atoll_recipe *recipe, const char *id,
                        struct atoll_error *err)
{
    const char *colon = strchr(d->name, ':');
    struct atoll_make_context contexts[ATOLL_DAYTONA_CONTEXTS_MAX];
    size_t count = 0;
    char name[65];
    struct atoll_make_request request = {
        .tenant = call->caller.tenant,
        .owner = call->caller.tenant,
        .name = name,
        .tags = colon                                                ? colon + 1
                : strcmp(d->name, ATOLL_DAYTONA_BUILD_TEMPLATE) == 0 ? ""
                                                                     : NULL,
        .id = id,
        .recipe = recipe,
        .source = "dockerfile",
        .definition = text,
        .contexts = contexts,
        .network = atoll_api_network_mode(call),
        .cpu_millis = d->cpu_millis,
        .memory_bytes = d->memory_bytes,
    };

    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(d->name, ":"), d->name);
    for (; d->hashes && d->hashes[count] && count < ATOLL_ARRAY_LEN(contexts); count++)
        contexts[count] = (struct atoll_make_context){.name = "", .context = d->hashes[count]};
    request.context_count = count;
    return atoll_make_start(call->engine, &request, NULL, err);
}

int atoll_daytona_build_start(const struct atoll_api_call *call,
                              const struct atoll_daytona_definition *d,
                              char id[ATOLL_VERSION_ID_LEN + 1], struct atoll_error *err)
{
    struct atoll_recipe *recipe = NULL;
    struct atoll_buf text;
    int r;

    atoll_version_id(id);
    atoll_buf_init(&text, ATOLL_RECIPE_TEXT_MAX);
    r = write_text(d, &text);
    if (r < 0)
        r = atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, E2BIG, "the Dockerfile is too large");
    if (r == 0)
        r = atoll_dockerfile_parse(atoll_buf_str(&text), atoll_buf_size(&text), &recipe, err);
    if (r == 0)
        r = start_parsed(call, d, atoll_buf_str(&text), recipe, id, err);
    atoll_recipe_free(recipe);
    atoll_buf_done(&text);
    return r;
}

/* Creating. */

/* The image of a Dockerfile that is only "FROM image". */
static bool take_image(const char *dockerfile, char *out, size_t cap)
{
    const char *p = dockerfile + strspn(dockerfile, " \t\r\n");
    size_t n;

    if (strncasecmp(p, "FROM", 4) != 0 || !isspace((unsigned char)p[4]))
        return false;
    p += 4 + strspn(p + 4, " \t");
    n = strcspn(p, " \t\r\n");
    if (n == 0 || n >= cap || *p == '-' || p[n + strspn(p + n, " \t\r\n")] != '\0')
        return false;
    memcpy(out, p, n);
    out[n] = '\0';
    return true;
}

void atoll_daytona_create_built(struct atoll_api_call *call, const struct atoll_daytona_create *q,
                                const struct atoll_options *options)
{
    struct atoll_options changed = *options;
    char image[256];

    if (!take_image(q->dockerfile, image, sizeof(image))) {
        atoll_daytona_wait_for_build(call, q, options);
        return;
    }
    changed.template_name = NULL;
    changed.image = image;
    atoll_engine_create(call->engine, &changed, atoll_daytona_created, call);
}
