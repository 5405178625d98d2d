FROM debian:trixie
RUN apt-get update && apt-get install -y --no-install-recommends bzip2 ca-certificates curl file findutils git \
        gzip iproute2 jq less lsof nodejs npm openssl procps python3 python3-pip python3-venv ripgrep tar unzip \
        which xz-utils zstd && \
    rm -rf /var/lib/apt/lists/* && ln -sf python3 /usr/bin/python && python3.13 --version && \
    useradd --create-home --shell /bin/bash vercel-sandbox
# The authorities that this host trusts, also for programs that have a list of their own.
COPY --from=host /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    REQUESTS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt \
    NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt \
    NPM_CONFIG_UPDATE_NOTIFIER=false PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore
RUN mkdir -p /vercel/sandbox && chown vercel-sandbox:vercel-sandbox /vercel/sandbox
USER vercel-sandbox
WORKDIR /vercel/sandbox
