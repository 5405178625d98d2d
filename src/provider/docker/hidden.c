/*
 * Files of an image that the tmpfs mounts of a sandbox hide (ATOLL_DOCKER_DISK_TMPFS). The engine can
 * neither copy them into a tmpfs nor tell which there are: a container that is created but not started
 * has no mounts yet, so its archive shows those of the image. The answer is kept for each image.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/tar.h"
#include "provider/docker/docker_internal.h"

#define LOOKED_MAX ((uint64_t)1 << 20) /* bytes of an archive */

static const char *const places[] = {"/home", "/root", "/tmp", "/var/tmp"};

/* Files that distributions put into every home. */
static const char *const usual[] = {".bashrc", ".profile", ".bash_logout", ".cshrc",
                                    ".tcshrc", ".wgetrc",  ".gitkeep",     ".wget-hsts"};

/* A tar archive that is being read. */
struct look {
    uint8_t head[ATOLL_TAR_BLOCK];
    size_t len;    /* of the head */
    uint64_t skip; /* bytes of contents */
    uint64_t seen;
    bool found;
};

static uint64_t octal(const uint8_t *text, size_t n)
{
    uint64_t value = 0;

    for (; n > 0 && *text >= '0' && *text <= '7'; text++, n--)
        value = value << 3 | (uint64_t)(*text - '0');
    return value;
}

/* By the last component of the name of the entry. */
static bool is_usual(const uint8_t *head)
{
    char name[101];
    const char *slash;

    (void)snprintf(name, sizeof(name), "%.100s", (const char *)head);
    slash = strrchr(name, '/');
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(usual); i++)
        if (strcmp(slash ? slash + 1 : name, usual[i]) == 0)
            return true;
    return false;
}

static void take_head(struct look *l)
{
    const char type = (char)l->head[156];
    const uint64_t size = octal(l->head + 124, 12);

    l->len = 0;
    l->skip = size + atoll_tar_padding(size);
    if (l->head[0] && (type == '0' || type == '\0' || type == '1' || type == '2'))
        l->found = !is_usual(l->head);
}

static int look_at(void *arg, const void *bytes, size_t n)
{
    struct look *l = arg;
    const uint8_t *p = bytes;

    l->seen += n;
    while (n > 0 && !l->found) {
        size_t part = l->skip > 0 ? (size_t)ATOLL_MIN(l->skip, (uint64_t)n)
                                  : ATOLL_MIN(ATOLL_TAR_BLOCK - l->len, n);
        if (l->skip > 0) {
            l->skip -= part;
        } else {
            memcpy(l->head + l->len, p, part);
            l->len += part;
        }
        p += part;
        n -= part;
        if (l->len == ATOLL_TAR_BLOCK)
            take_head(l);
    }
    return l->found || l->seen > LOOKED_MAX ? -ECANCELED : 0;
}

static bool has_files(struct atoll_docker *d, const struct atoll_sync_call *call,
                      const char *container, const char *place)
{
    struct look look = {.found = false};
    struct atoll_docker_ask ask = {.method = "GET", .sink = look_at, .sink_arg = &look};
    struct atoll_error unused;
    char path[200];

    (void)snprintf(path, sizeof(path), "/containers/%s/archive?path=%s", container, place);
    ask.path = path;
    (void)!atoll_docker_http_ask(d->http, call, &ask, NULL, &unused);
    return look.found;
}

static struct atoll_docker_hidden *find(struct atoll_docker *d, const char *image)
{
    for (size_t i = 0; i < ATOLL_DOCKER_HIDDEN_MAX; i++)
        if (strcmp(d->hidden[i].image, image) == 0)
            return &d->hidden[i];
    return NULL;
}

void atoll_docker_hidden_get(struct atoll_docker *d, const char *image, char *out, size_t cap)
{
    const struct atoll_docker_hidden *known;

    (void)pthread_mutex_lock(&d->lock);
    known = find(d, image);
    *out = '\0';
    if (known && *known->places)
        (void)snprintf(out, cap,
                       "files of the image under %s are hidden, because the disk of this sandbox "
                       "is in memory there; see \"Disks in memory\" in docs/docker.md",
                       known->places);
    (void)pthread_mutex_unlock(&d->lock);
}

void atoll_docker_hidden_look(struct atoll_docker *d, const struct atoll_sync_call *call,
                              const char *container, const char *image)
{
    struct atoll_docker_hidden made = {0};
    size_t len = 0;
    bool known;

    (void)pthread_mutex_lock(&d->lock);
    known = find(d, image) != NULL;
    (void)pthread_mutex_unlock(&d->lock);
    if (known || strlen(image) >= sizeof(made.image))
        return;
    memcpy(made.image, image, strlen(image) + 1);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(places); i++)
        if (has_files(d, call, container, places[i]))
            len += (size_t)snprintf(made.places + len, sizeof(made.places) - len, "%s%s",
                                    len ? ", " : "", places[i]);
    (void)pthread_mutex_lock(&d->lock);
    if (!find(d, image))
        d->hidden[d->hidden_next++ % ATOLL_DOCKER_HIDDEN_MAX] = made;
    (void)pthread_mutex_unlock(&d->lock);
}
