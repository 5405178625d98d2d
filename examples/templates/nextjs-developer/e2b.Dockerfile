FROM node:21-slim

RUN apt-get update && apt-get install -y --no-install-recommends curl ca-certificates && \
    rm -rf /var/lib/apt/lists/*

COPY --chmod=755 compile_page.sh /compile_page.sh

WORKDIR /home/user/nextjs-app
RUN npx --yes create-next-app@14.2.20 . --ts --tailwind --no-eslint \
    --import-alias "@/*" --use-npm --no-app --no-src-dir

# Components come from ui.shadcn.com. --build-arg COMPONENTS= leaves them out.
ARG COMPONENTS=--all
RUN [ -z "$COMPONENTS" ] || npx --yes shadcn@2.1.7 init -d
RUN [ -z "$COMPONENTS" ] || npx --yes shadcn@2.1.7 add $COMPONENTS
RUN npm install posthog-js@1.200

# The home directory of the sandbox is the app.
RUN mv /home/user/nextjs-app/* /home/user/ && rm -rf /home/user/nextjs-app
WORKDIR /home/user
