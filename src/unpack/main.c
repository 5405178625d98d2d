/* atoll-unpack: options and the last line. The contract is in unpack/unpack.h. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "base/text.h"
#include "unpack/sbom.h"
#include "unpack/settle.h"
#include "unpack/squash.h"
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
    "                    [--max-path N] [--max-ratio N] DIR < ARCHIVE\n"
    "       atoll-unpack pack [--compress none|gzip|zstd] [--level N] [--plain]\n"
    "                    [--output FILE] DIR\n"
    "       atoll-unpack sbom [--name NAME] [--output FILE] DIR...\n"
    "       atoll-unpack settle OUT DIR...\n"
    "       atoll-unpack squash [--max-bytes N] [--max-files N] OUT DIR...\n";

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
    (void)printf("{\"diffId\":\"sha256:%s\",\"digest\":\"sha256:%s\",\"inputBytes\":%llu,"
                 "\"tarBytes\":%llu,\"bytes\":%llu,\"files\":%llu,\"skipped\":%llu,\"notes\":%llu,"
                 "\"implied\":%llu}\n",
                 r->diff_id, r->digest, (unsigned long long)r->input_bytes,
                 (unsigned long long)r->tar_bytes, (unsigned long long)r->bytes,
                 (unsigned long long)r->files, (unsigned long long)r->skipped,
                 (unsigned long long)r->notes, (unsigned long long)r->implied);
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

static const struct option pack_options[] = {
    {"plain", no_argument, NULL, 'p'},
    {"compress", required_argument, NULL, 'c'},
    {"level", required_argument, NULL, 'l'},
    {"output", required_argument, NULL, 'o'},
    {NULL, 0, NULL, 0},
};

static int read_compression(const char *name, enum atoll_pack_compression *ret)
{
    static const char *const names[] = {"none", "gzip", "zstd"};

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++)
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum atoll_pack_compression)i;
            return 0;
        }
    return -EINVAL;
}

static int read_pack_option(int option, struct atoll_pack_options *o, const char **output)
{
    uint64_t level;
    int r = 0;

    switch (option) {
    case 'p':
        o->plain = true;
        break;
    case 'c':
        r = read_compression(optarg, &o->compression);
        break;
    case 'l':
        r = atoll_text_u64(optarg, 1, 22, &level);
        o->level = r == 0 ? (int)level : 0;
        break;
    case 'o':
        *output = optarg;
        break;
    default:
        r = -EINVAL;
    }
    return r;
}

static int open_output(const char *path, struct atoll_error *err)
{
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : STDOUT_FILENO;
    return fd < 0 ? atoll_fail_errno(err, errno, "open %s", path) : fd;
}

static int run_pack(int argc, char **argv)
{
    struct atoll_pack_options o = {0};
    struct atoll_pack_result r;
    struct atoll_error err;
    const char *output = NULL;
    int option, dir, out;

    while ((option = getopt_long(argc, argv, "", pack_options, NULL)) != -1)
        if (read_pack_option(option, &o, &output) < 0)
            return usage();
    if (argc != optind + 1)
        return usage();
    dir = open_directory(argv[optind], &err);
    out = dir < 0 ? dir : open_output(output, &err);
    if (out < 0 || atoll_pack(dir, out, &o, &r, &err) < 0)
        return report(output ? STDOUT_FILENO : STDERR_FILENO, &err);
    (void)dprintf(output ? STDOUT_FILENO : STDERR_FILENO,
                  "{\"digest\":\"sha256:%s\",\"bytes\":%llu,\"diffId\":\"sha256:%s\","
                  "\"tarBytes\":%llu,\"files\":%llu}\n",
                  r.digest, (unsigned long long)r.bytes, r.diff_id, (unsigned long long)r.tar_bytes,
                  (unsigned long long)r.files);
    return 0;
}

static int run_sbom(int argc, char **argv)
{
    static const struct option options[] = {{"name", required_argument, NULL, 'n'},
                                            {"output", required_argument, NULL, 'o'},
                                            {NULL, 0, NULL, 0}};
    const char *name = NULL, *output = NULL;
    struct atoll_error err;
    int option, out;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option != 'n' && option != 'o')
            return usage();
        *(option == 'n' ? &name : &output) = optarg;
    }
    if (argc == optind)
        return usage();
    out = open_output(output, &err);
    return out < 0 || atoll_sbom_write(argv + optind, (size_t)(argc - optind), name, out, &err) < 0
               ? report(STDERR_FILENO, &err)
               : 0;
}

static int run_settle(int argc, char **argv)
{
    struct atoll_error err;
    uint64_t made;
    int out;

    if (argc < 3)
        return usage();
    out = open_directory(argv[1], &err);
    if (out < 0 || atoll_settle(argv + 2, (size_t)argc - 2, out, &made, &err) < 0)
        return report(STDOUT_FILENO, &err);
    (void)printf("{\"bytes\":0,\"files\":%llu}\n", (unsigned long long)made);
    return fflush(stdout) == 0 ? 0 : EXIT_OTHER;
}

static int run_squash(int argc, char **argv)
{
    static const struct option options[] = {{"max-bytes", required_argument, NULL, 'b'},
                                            {"max-files", required_argument, NULL, 'f'},
                                            {NULL, 0, NULL, 0}};
    struct atoll_squash_options o = {.max_bytes = ATOLL_UNPACK_MAX_BYTES,
                                     .max_files = ATOLL_UNPACK_MAX_FILES};
    struct atoll_squash_result made;
    struct atoll_error err;
    int option, out;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (option == '?' ||
            atoll_text_u64(optarg, 0, INT64_MAX, option == 'b' ? &o.max_bytes : &o.max_files) < 0)
            return usage();
    if (argc < optind + 2)
        return usage();
    out = open_directory(argv[optind], &err);
    if (out < 0 ||
        atoll_squash(argv + optind + 1, (size_t)(argc - optind) - 1, out, &o, &made, &err) < 0)
        return report(STDOUT_FILENO, &err);
    (void)printf("{\"bytes\":%llu,\"files\":%llu}\n", (unsigned long long)made.bytes,
                 (unsigned long long)made.files);
    return fflush(stdout) == 0 ? 0 : EXIT_OTHER;
}

int main(int argc, char **argv)
{
    atoll_fd_raise_limit(); /* a deep tree has many open */
    if (argc > 1 && strcmp(argv[1], "pack") == 0)
        return run_pack(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "sbom") == 0)
        return run_sbom(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "settle") == 0)
        return run_settle(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "squash") == 0)
        return run_squash(argc - 1, argv + 1);
    return run_unpack(argc, argv);
}
