#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "engine/build/build_internal.h"
#include "engine/template/unpack.h"
#include "sandbox/programs.h"

/*
 * What ADD does beyond COPY: a file that is a tar archive is unpacked, and files come from URLs. Both are done
 * by programs of the host template in the sandbox of the step: archives and servers are hostile, and a
 * download is subject to the network policy of the build.
 */
#define TREE "/.atoll/source"
#define UNPACKED "/.atoll/unpacked"
#define DOWNLOADED "/.atoll/downloaded"
#define PAIRS_MAX 1000

/* Arguments: pairs of a path in the tree and a name. As Docker, a file is an archive if its first entry can
 * be read, whatever it is called. */
static const char add_script[] =
    "set -e; i=0; "
    "while [ $# -gt 0 ]; do "
    "  if [ \"$UNPACK\" != 0 ] && [ -f \"$TREE/$1\" ] && "
    "     [ -n \"$(tar -tf \"$TREE/$1\" 2>/dev/null | head -n 1)\" ]; then "
    "    i=$((i + 1)); mkdir \"$UNPACKED/$i\"; "
    "    " ATOLL_UNPACK_PROGRAM
    " --plain --max-ratio \"$RATIO\" \"$UNPACKED/$i\" <\"$TREE/$1\" >\"$UNPACKED/$i.log\" || "
    "      { cat \"$UNPACKED/$i.log\" >&2; exit 1; }; "
    "    " ATOLL_COPY_PROGRAM
    " ${ROOT:+--root \"$ROOT\"} ${CHOWN:+--chown \"$CHOWN\"} --keep-owner "
    "      \"$UNPACKED/$i\" \"${DEST%/}/\" '' ''; shift 2; "
    "  else "
    "    " ATOLL_COPY_PROGRAM " ${ROOT:+--root \"$ROOT\"} ${CHOWN:+--chown \"$CHOWN\"} "
    "      ${CHMOD:+--chmod \"$CHMOD\"} \"$TREE\" \"$DEST\" \"$1\" \"$2\"; shift 2; "
    "  fi; "
    "done";

/* The first of the programs that the host has. Arguments: URL and name. */
static const char get_script[] =
    "set -e; trusted=" ATOLL_TRUSTED_FILE "; "
    "while [ $# -gt 0 ]; do "
    "  if command -v curl >/dev/null; then "
    "    curl -fsSL --retry 3 --cacert $trusted -R -o \"$DOWNLOADED/$2\" \"$1\"; "
    "  elif command -v wget >/dev/null; then "
    "    wget -q --ca-certificate=$trusted -O \"$DOWNLOADED/$2\" \"$1\"; "
    "  else "
    "    python3 -c 'import ssl, sys, urllib.request as u; "
    "open(sys.argv[2], \"wb\").write(u.urlopen(sys.argv[1], "
    "context=ssl.create_default_context(cafile=sys.argv[3])).read())' "
    "      \"$1\" \"$DOWNLOADED/$2\" $trusted; "
    "  fi; "
    "  if [ -n \"$CHECKSUM\" ]; then "
    "    echo \"$CHECKSUM  $DOWNLOADED/$2\" | sha256sum -c --quiet >/dev/null 2>&1 || "
    "      { echo \"$1 has another digest than --checksum\" >&2; exit 1; }; "
    "  fi; "
    "  chmod \"${CHMOD:-600}\" \"$DOWNLOADED/$2\"; "
    "  " ATOLL_COPY_PROGRAM " ${ROOT:+--root \"$ROOT\"} ${CHOWN:+--chown \"$CHOWN\"} "
    "    \"$DOWNLOADED\" \"$DEST\" \"$2\" \"$2\"; shift 2; "
    "done";

static const char *const *settings(struct atoll_make_job *job, const struct atoll_recipe_step *step,
                                   const char *dest)
{
    const char **env = atoll_make_job_words(job, 12);
    const char *checksum = step->flags.checksum ? step->flags.checksum : "";
    size_t n = 0;

    if (!env)
        return NULL; /* the job is too large */
    if (strncmp(checksum, "sha256:", 7) == 0)
        checksum += 7;
    env[n++] = "TREE=" TREE;
    env[n++] = "UNPACKED=" UNPACKED;
    env[n++] = "DOWNLOADED=" DOWNLOADED;
    env[n++] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    env[n++] = job->builder == ATOLL_BUILDER_COPY ? "ROOT=/import" : "ROOT=";
    env[n++] = atoll_make_job_textf(job, "DEST=%s", dest);
    env[n++] = atoll_make_job_textf(job, "CHOWN=%s", step->flags.chown ? step->flags.chown : "");
    env[n++] = atoll_make_job_textf(job, "CHMOD=%s", step->flags.chmod ? step->flags.chmod : "");
    env[n++] = atoll_make_job_textf(job, "CHECKSUM=%s", checksum);
    env[n++] = step->flags.unpack == 0 ? "UNPACK=0" : "UNPACK=1";
    env[n++] = atoll_make_job_textf(job, "RATIO=%d", ATOLL_UNPACK_RATIO);
    return env;
}

static int add_script_command(struct atoll_make_job *job, const struct atoll_recipe_step *step,
                              const char *dest, const char *script, const char *what,
                              const char *const *words, size_t count, struct atoll_error *err)
{
    struct atoll_make_job_command command = {.what = what, .user = "root", .cwd = "/"};
    const char **argv = atoll_make_job_words(job, count + 4);

    if (!argv)
        return atoll_make_job_check(job, err);
    argv[0] = "/bin/sh";
    argv[1] = "-c";
    argv[2] = script;
    argv[3] = "add";
    memcpy(argv + 4, words, count * sizeof(*argv));
    command.argv = argv;
    command.env = settings(job, step, dest);
    return atoll_make_job_add_command(job, &command, err);
}

int atoll_stage_add_files(struct atoll_make_job *job, const struct atoll_recipe_step *step,
                          const struct atoll_copy_match *match, const char *dest,
                          struct atoll_error *err)
{
    const char **words;
    int r;

    if (match->pair_count > PAIRS_MAX)
        return atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, E2BIG,
                          "ADD takes %d files at most, COPY any number", PAIRS_MAX);
    words = atoll_make_job_words(job, 2 * match->pair_count);
    if (!words)
        return atoll_make_job_check(job, err);
    for (size_t i = 0; i < match->pair_count; i++) {
        words[2 * i] = atoll_make_job_textf(job, "%s", match->pairs[i].path);
        words[2 * i + 1] = atoll_make_job_textf(job, "%s", match->pairs[i].name);
    }
    r = atoll_make_job_add_cache(job, ATOLL_CACHE_SCRATCH, UNPACKED, NULL, err);
    return r < 0 ? r
                 : add_script_command(job, step, dest, add_script, "the copy", words,
                                      2 * match->pair_count, err);
}

/* What a file is called that comes from the URL. */
static const char *name_of(struct atoll_make_job *job, const char *url)
{
    const char *host = strstr(url, "://");
    size_t n = strcspn(url, "?#");
    const char *end = url + n, *begin = end;

    while (begin > url && begin[-1] != '/')
        begin--;
    if (!host || begin <= host + 3 || begin == end)
        return NULL;
    return atoll_make_job_textf(job, "%.*s", (int)(end - begin), begin);
}

int atoll_stage_add_urls(struct atoll_make_stage *stage, struct atoll_make_job *job,
                         const char *dest, struct atoll_error *err)
{
    const struct atoll_recipe_step *step = &stage->now;
    const char **words = atoll_make_job_words(job, 2 * step->arg_count);
    size_t n = 0;
    int r;

    if (!words)
        return atoll_make_job_check(job, err);
    for (size_t i = 0; i < step->arg_count; i++) {
        const char *url = step->args[i];
        if (!atoll_copy_is_remote(url))
            continue;
        if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
            return atoll_fail(err, ATOLL_ERR_UNIMPLEMENTED, EOPNOTSUPP,
                              "ADD of a Git repository is not supported: use RUN git clone");
        words[n++] = url;
        words[n] = name_of(job, url);
        if (!words[n++])
            return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL, "%.200s names no file", url);
    }
    if (stage->make->network == ATOLL_NETWORK_NONE)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENETUNREACH,
                          "ADD of a URL needs a network: build with --network bridge");
    job->network = stage->make->network;
    job->policy = stage->make->policy ? atoll_make_job_textf(job, "%s", stage->make->policy) : NULL;
    job->fresh |= !step->flags.checksum; /* what the server has now is not known */
    r = atoll_make_job_add_cache(job, ATOLL_CACHE_SCRATCH, DOWNLOADED, NULL, err);
    return r < 0 ? r
                 : add_script_command(job, step, dest, get_script, "the download", words, n, err);
}
