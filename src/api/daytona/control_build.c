/*
 * Sandboxes from Dockerfiles. An image alone is pulled; everything else is built.
 */
#include <ctype.h>
#include <string.h>
#include "api/daytona/control_create.h"

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
        atoll_daytona_refuse(call, 501, NULL, "builds of Dockerfiles are not supported yet");
        return;
    }
    changed.template_name = NULL;
    changed.image = image;
    atoll_engine_create(call->engine, &changed, atoll_daytona_created, call);
}
