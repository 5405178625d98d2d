/* atoll-copy: options and pairs. The contract is in copy/copy.h. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/buf.h"
#include "base/fd.h"
#include "copy/copy.h"

#define EXIT_USAGE 2
#define EXCLUDED "/" /* as NAME of a pair on stdin */
#define INPUT_MAX ((size_t)256 * 1024 * 1024)

struct request {
    struct atoll_copy_options options;
    const char **excludes; /* owned, until the program ends */
    const char *root, *chown;
    bool from_stdin, list;
};

static const struct option long_options[] = {
    {"stdin", no_argument, NULL, 's'},         {"chown", required_argument, NULL, 'o'},
    {"keep-owner", no_argument, NULL, 'k'},    {"chmod", required_argument, NULL, 'm'},
    {"exclude", required_argument, NULL, 'x'}, {"root", required_argument, NULL, 'r'},
    {"list", no_argument, NULL, 'l'},          {NULL, 0, NULL, 0},
};

static int usage(void)
{
    (void)fputs("Usage: atoll-copy [--stdin] [--chown U[:G]] [--keep-owner] [--chmod MODE]\n"
                "                  [--exclude PATH]... [--root DIR] TREE DEST [PATH NAME]...\n"
                "       atoll-copy --list TREE\n",
                stderr);
    return EXIT_USAGE;
}

static int complain(const struct atoll_error *error)
{
    (void)fprintf(stderr, "%s\n", error->text);
    return 1;
}

static int read_mode(const char *text, struct atoll_copy_options *o)
{
    char *end;
    unsigned long mode = strtoul(text, &end, 8);

    if (*text < '0' || *text > '7' || *end || mode > 07777)
        return -EINVAL;
    o->has_mode = true;
    o->mode = (mode_t)mode;
    return 0;
}

static int add_exclude(struct request *r, const char *path)
{
    size_t count = r->options.exclude_count;

    if ((count & (count - 1)) == 0) {
        const char **more = realloc(r->excludes, ATOLL_MAX(2 * count, (size_t)1) * sizeof(*more));
        if (!more)
            return -ENOMEM;
        r->excludes = more;
    }
    r->excludes[r->options.exclude_count++] = path;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sort_excludes(struct request *r)
{
    if (r->options.exclude_count > 0)
        qsort(r->excludes, r->options.exclude_count, sizeof(*r->excludes), by_text);
    r->options.excludes = r->excludes;
}

static int read_option(int option, struct request *r)
{
    switch (option) {
    case 's':
        r->from_stdin = true;
        return 0;
    case 'l':
        r->list = true;
        return 0;
    case 'k':
        r->options.keep_owner = true;
        return 0;
    case 'o':
        r->chown = optarg;
        return 0;
    case 'm':
        return read_mode(optarg, &r->options);
    case 'r':
        r->root = optarg;
        return 0;
    case 'x':
        return add_exclude(r, optarg);
    default:
        return -EINVAL;
    }
}

static int open_directory(const char *path, struct atoll_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? atoll_fail_errno(err, errno, "open %.200s", path) : fd;
}

static int read_input(struct atoll_buf *input, struct atoll_error *err)
{
    for (;;) {
        uint8_t *tail;
        ssize_t n;

        if (atoll_buf_reserve(input, (size_t)64 * 1024, &tail) < 0)
            return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG, "too many sources");
        n = read(STDIN_FILENO, tail, (size_t)64 * 1024);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return atoll_fail_errno(err, errno, "read the list of sources");
        if (n == 0)
            return 0;
        atoll_buf_commit(input, (size_t)n);
    }
}

/* Takes the excluded paths of the input, and counts the pairs that are to be copied. */
static int read_pairs(struct request *r, const char *at, const char *end, size_t *ret_count,
                      struct atoll_error *err)
{
    size_t texts = 0;

    for (const char *p = at; p < end; p++)
        texts += *p == '\0';
    if (texts % 2 != 0 || (end > at && end[-1] != '\0'))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "malformed list of sources");
    *ret_count = texts / 2;
    while (at < end) {
        const char *name = at + strlen(at) + 1;

        if (strcmp(name, EXCLUDED) == 0) {
            if (add_exclude(r, at) < 0)
                return atoll_fail_errno(err, ENOMEM, "the list of sources");
            --*ret_count;
        }
        at = name + strlen(name) + 1;
    }
    return 0;
}

/* Pairs of the input, one after the other. */
static int copy_input(struct request *r, int root, int tree, const char *dest,
                      struct atoll_buf *input, struct atoll_error *err)
{
    const char *at = (const char *)atoll_buf_head(input), *end = at + atoll_buf_size(input);
    size_t count = 0;
    int result = read_pairs(r, at, end, &count, err);

    sort_excludes(r);
    while (result == 0 && at < end) {
        const char *name = at + strlen(at) + 1;

        if (strcmp(name, EXCLUDED) != 0)
            result = atoll_copy(root, tree, dest, count > 1, at, name, &r->options, err);
        at = name + strlen(name) + 1;
    }
    return result;
}

static int copy_arguments(const struct request *r, int root, int tree, const char *dest,
                          char **pairs, int count, struct atoll_error *err)
{
    int result = 0;

    for (int i = 0; result == 0 && i < count; i += 2)
        result = atoll_copy(root, tree, dest, count > 2, pairs[i], pairs[i + 1], &r->options, err);
    return result;
}

static int copy_all(struct request *r, char **argv, int argc, struct atoll_error *err)
{
    ATOLL_CLEANUP(atoll_buf_done) struct atoll_buf input;
    ATOLL_AUTOCLOSE int root = open_directory(r->root, err);
    ATOLL_AUTOCLOSE int tree = root < 0 ? root : open_directory(argv[0], err);
    int result = tree;

    atoll_buf_init(&input, INPUT_MAX);
    if (tree >= 0 && r->chown) {
        result = atoll_copy_owner(root, r->chown, &r->options.uid, &r->options.gid, err);
        r->options.keep_owner = false;
    }
    if (result < 0)
        return result;
    if (!r->from_stdin)
        return copy_arguments(r, root, tree, argv[1], argv + 2, argc - 2, err);
    result = read_input(&input, err);
    return result < 0 ? result : copy_input(r, root, tree, argv[1], &input, err);
}

static int list(const char *path, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int tree = open_directory(path, err);

    return tree < 0 ? tree : atoll_copy_list(tree, STDOUT_FILENO, err);
}

int main(int argc, char **argv)
{
    static struct request r = {.root = "/"};
    struct atoll_error err;
    int option;

    while ((option = getopt_long(argc, argv, "+", long_options, NULL)) != -1)
        if (read_option(option, &r) < 0)
            return usage();
    argv += optind;
    argc -= optind;
    (void)umask(0);
    atoll_fd_raise_limit(); /* a deep tree has many open */
    if (r.list)
        return argc != 1 ? usage() : list(argv[0], &err) < 0 ? complain(&err) : 0;
    if (argc < 2 || argc % 2 != 0 || (r.from_stdin && argc != 2) || argv[1][0] != '/')
        return usage();
    sort_excludes(&r);
    return copy_all(&r, argv, argc, &err) < 0 ? complain(&err) : 0;
}
