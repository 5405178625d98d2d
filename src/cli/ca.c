/*
 * `atoll ca`, `atoll vercel ca`: the certificate authority of the daemon on this machine, for clients of its TLS
 * listener.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include "base/fd.h"
#include "cli/client.h"
#include "cli/place.h"

#define PEM_MAX (64 * 1024)
#define VERCEL_NAMES "vercel.com,api.vercel.com,*.vercel.run"

struct options {
    struct atoll_cli_common common;
    const char *state;
    bool pem;
};

static const struct atoll_cli_option options_table[] = {
    {"pem", 0, ATOLL_CLI_FLAG, offsetof(struct options, pem), NULL, "print the certificate itself",
     NULL},
    {"state", 0, ATOLL_CLI_TEXT, offsetof(struct options, state), "DIR",
     "state directory of the daemon, as given to `atoll up`", NULL},
    ATOLL_CLI_COMMON(struct options),
    {0},
};

static int fail(const char *state, int errnum, struct atoll_error *err)
{
    if (errnum == ENOENT)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT,
                          "the daemon with state directory %.200s has no certificate authority: it "
                          "has had no TLS listener, or its certificate is from --tls-cert",
                          state);
    if (errnum == EACCES)
        return atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EACCES,
                          "%.200s/tls/ca.pem: only the user of the daemon may read it", state);
    return atoll_fail_errno(err, errnum, "%.200s/tls/ca.pem", state);
}

/* The path goes to standard output, for $(atoll ca); the hints are for people. */
static void print_words(const char *path)
{
    (void)printf("%s\n", path);
    (void)fflush(stdout);
    (void)fprintf(stderr,
                  "\nTrust it in a shell:\n"
                  "  export ATOLL_CA_FILE=%s        # atoll, libatoll\n"
                  "  export SSL_CERT_FILE=%s        # Python, Ruby, other users of OpenSSL\n"
                  "  export NODE_EXTRA_CA_CERTS=%s  # Node\n"
                  "  curl --cacert %s https://localhost:8443/healthz\n"
                  "On the whole machine:\n"
                  "  Debian, Ubuntu  sudo cp %s /usr/local/share/ca-certificates/atoll.crt && "
                  "sudo update-ca-certificates\n"
                  "  Fedora          sudo trust anchor %s\n",
                  path, path, path, path, path, path);
}

static void print_vercel_words(const char *path)
{
    (void)printf("%s\n", path);
    (void)fflush(stdout);
    (void)fprintf(stderr,
                  "\nThe daemon needs port 443 and Vercel's names in its certificate:\n"
                  "  atoll up -- --tls-listen 127.0.0.1:443 --tls-names " VERCEL_NAMES "\n"
                  "The names lead to it, on one machine with a line of /etc/hosts:\n"
                  "  127.0.0.1 vercel.com api.vercel.com\n"
                  "Programs for Node trust it, and send a key:\n"
                  "  export NODE_EXTRA_CA_CERTS=%s\n"
                  "  eval \"$(atoll vercel env --no-preload)\"\n",
                  path);
}

static int show(struct atoll_cli *cli, const struct options *o, const char *hint,
                void (*words)(const char *path), struct atoll_error *err)
{
    ATOLL_AUTOJSON json_t *object = NULL;
    struct atoll_cli_place place;
    char path[ATOLL_CLI_PATH_MAX + 16], pem[PEM_MAX];
    int r = atoll_cli_place_find(&place, o->state, NULL, err), n;

    if (r < 0)
        return r;
    if (!o->state)
        (void)atoll_cli_place_daemon(&place);
    (void)snprintf(path, sizeof(path), "%s/tls/ca.pem", place.state);
    n = atoll_fd_read_file(AT_FDCWD, path, pem, sizeof(pem));
    if (n == -ENOENT)
        (void)snprintf(cli->hint, sizeof(cli->hint), "to serve TLS with one:\n  %s", hint);
    if (n < 0)
        return fail(place.state, -n, err);
    object = json_pack("{s:s, s:s}", "ca_file", path, "pem", pem);
    if (cli->json)
        return atoll_cli_print_json(object, err);
    if (o->pem)
        (void)fputs(pem, stdout);
    else
        words(path);
    return ATOLL_CLI_OK;
}

static int run(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
               char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    return show(cli, options, "atoll up -- --tls-listen 127.0.0.1:8443", print_words, err);
}

static int run_vercel(struct atoll_cli *cli, const void *options, int argc ATOLL_UNUSED,
                      char **argv ATOLL_UNUSED, struct atoll_error *err)
{
    return show(cli, options, "atoll up -- --tls-listen 127.0.0.1:443 --tls-names " VERCEL_NAMES,
                print_vercel_words, err);
}

const struct atoll_cli_verb atoll_cli_ca = {
    .name = "ca",
    .args = "[OPTION]...",
    .summary = "print the path of the daemon's CA certificate, and how to trust it",
    .help = "A daemon with --tls-listen and without --tls-cert is its own certificate authority.\n"
            "Only the user of the daemon may read the file. The path is the only line on\n"
            "standard output.\n"
            "\n"
            "Examples:\n"
            "  atoll up -- --tls-listen 127.0.0.1:8443\n"
            "  atoll ca\n"
            "  curl --cacert $(atoll ca) https://localhost:8443/healthz\n"
            "  atoll ca --pem | ssh other 'cat > atoll-ca.pem'\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .run = run,
};

const struct atoll_cli_verb atoll_cli_vercel_ca = {
    .name = "vercel ca",
    .args = "[OPTION]...",
    .summary = "print the path of the daemon's CA certificate, and how to stand in for vercel.com",
    .help = "For programs that cannot load the file of `atoll vercel env`, and for browsers: DNS\n"
            "leads Vercel's names to the daemon, whose certificate is also for them.\n"
            "\n"
            "Examples:\n"
            "  atoll up -- --tls-listen 127.0.0.1:443 --tls-names " VERCEL_NAMES "\n"
            "  NODE_EXTRA_CA_CERTS=$(atoll vercel ca) node app.js\n",
    .options = options_table,
    .options_size = sizeof(struct options),
    .run = run_vercel,
};
