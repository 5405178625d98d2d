/* atoll-unpack: options and the last line. The contract is in unpack/unpack.h. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/text.h"
#include "unpack/unpack.h"

#define EXIT_ARCHIVE 1
#define EXIT_USAGE 2
#define EXIT_LIMIT 3
#define EXIT_OTHER 4

#ifdef ATOLL_SANITIZED
/* The leak checker uses ptrace, which a sandbox does not permit. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#endif

static const char usage_text[] =
    "Usage: atoll-unpack [--plain] [--manifest FILE] [--max-bytes N] [--max-files N]\n"
    "                    [--max-path N] [--max-ratio N] DIR < ARCHIVE\n";

static int usage(void)
{
    (void)fputs(usage_text, stderr);
    return EXIT_USAGE;
}

/* The line of an error, and the exit status. */
static int report(int fd, const struct atoll_error *error)
{
    struct atoll_buf line;

    atoll_buf_init(&line, (size_t)8 * 1024);
    if (atoll_buf_appends(&line, "{\"error\":") == 0 &&
        atoll_text_json_quote(&line, error->text, strlen(error->text)) == 0 &&
        atoll_buf_appendf(&line, ",\"kind\":\"%s\"}\n", atoll_error_kind_name(error->kind)) == 0)
        (void)!atoll_fd_write_all(fd, atoll_buf_head(&line), atoll_buf_size(&line));
    atoll_buf_done(&line);
    return error->kind == ATOLL_ERR_INVALID_ARGUMENT     ? EXIT_ARCHIVE
           : error->kind == ATOLL_ERR_RESOURCE_EXHAUSTED ? EXIT_LIMIT
                                                         : EXIT_OTHER;
}

static const struct option unpack_options[] = {
    {"plain", no_argument, NULL, 'p'},
    {"manifest", required_argument, NULL, 'm'},
    {"max-bytes", required_argument, NULL, 'b'},
    {"max-files", required_argument, NULL, 'f'},
    {"max-path", required_argument, NULL, 'l'},
    {"max-ratio", required_argument, NULL, 'r'},
    {NULL, 0, NULL, 0},
};

static int read_unpack_option(int option, struct atoll_unpack_options *o)
{
    switch (option) {
    case 'p':
        o->plain = true;
        return 0;
    case 'm':
        o->manifest = optarg;
        return 0;
    case 'b':
        return atoll_text_u64(optarg, 0, INT64_MAX, &o->max_bytes);
    case 'f':
        return atoll_text_u64(optarg, 0, INT64_MAX, &o->max_files);
    case 'l':
        return atoll_text_u64(optarg, 1, 4096, &o->max_path);
    case 'r':
        return atoll_text_u64(optarg, 0, INT64_MAX, &o->max_ratio);
    default:
        return -EINVAL;
    }
}

static int open_directory(const char *path, struct atoll_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? atoll_fail_errno(err, errno, "open %s", path) : fd;
}

static void print_unpacked(const struct atoll_unpack_result *r)
{
    (void)printf(
        "{\"diffId\":\"sha256:%s\",\"digest\":\"sha256:%s\",\"inputBytes\":%llu,"
        "\"tarBytes\":%llu,\"bytes\":%llu,\"files\":%llu,\"skipped\":%llu,\"notes\":%llu}\n",
        r->diff_id, r->digest, (unsigned long long)r->input_bytes, (unsigned long long)r->tar_bytes,
        (unsigned long long)r->bytes, (unsigned long long)r->files, (unsigned long long)r->skipped,
        (unsigned long long)r->notes);
}

static int run_unpack(int argc, char **argv)
{
    struct atoll_unpack_options o = {.max_bytes = ATOLL_UNPACK_MAX_BYTES,
                                     .max_files = ATOLL_UNPACK_MAX_FILES,
                                     .max_path = ATOLL_UNPACK_MAX_PATH};
    struct atoll_unpack_result result;
    struct atoll_error err;
    int option, dir;

    while ((option = getopt_long(argc, argv, "", unpack_options, NULL)) != -1)
        if (read_unpack_option(option, &o) < 0)
            return usage();
    if (argc != optind + 1)
        return usage();
    dir = open_directory(argv[optind], &err);
    if (dir < 0 || atoll_unpack(STDIN_FILENO, dir, STDOUT_FILENO, &o, &result, &err) < 0)
        return report(STDOUT_FILENO, &err);
    print_unpacked(&result);
    return fflush(stdout) == 0 ? 0 : EXIT_OTHER;
}

int main(int argc, char **argv)
{
    return run_unpack(argc, argv);
}
