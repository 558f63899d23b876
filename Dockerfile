# Penstock with what it needs: the command, and the image of Spark's drivers and executors on Kubernetes.
#
#     make dist && docker build --tag penstock .
#     docker run --rm --user "$(id -u):0" --volume "$PWD:/work" --workdir /work penstock plan jobs.jsonl --out plans
#
# BASE may be any Debian or Ubuntu with Python 3.11 to 3.14, its venv, and a JRE of 17 or newer in its archive.
ARG BASE=python:3.13-slim-bookworm

FROM ${BASE} AS build
COPY dist/*.whl /tmp/wheels/
RUN python3 -m venv /opt/penstock \
    && /opt/penstock/bin/python -m pip install --no-cache-dir /tmp/wheels/*.whl

FROM ${BASE} AS java
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
    && rm --recursive /var/lib/apt/lists/* \
    && ln --symbolic "$(dirname "$(dirname "$(readlink --canonicalize /usr/bin/java)")")" /opt/java
ENV JAVA_HOME=/opt/java

# The jars that a first start of Spark would fetch, so that no pod needs a network for them.
FROM java AS jars
COPY --from=build /opt/penstock /opt/penstock
RUN HOME=/tmp/home SPARK_LOCAL_IP=127.0.0.1 /opt/penstock/bin/penstock doctor --session \
    && mv /tmp/home/.ivy2.5.2/jars /opt/penstock-jars

FROM java
COPY --from=build /opt/penstock /opt/penstock
COPY --from=jars /opt/penstock-jars /opt/penstock-jars
COPY --chmod=755 container/entrypoint.sh /opt/entrypoint.sh
# Spark mounts its settings at /opt/spark/conf and runs in /opt/spark/work-dir. 185 is the user of Spark's own
# images; its group is root's, so that a cluster may choose another user id.
RUN mkdir --parents /opt/spark/conf /opt/spark/work-dir /home/penstock \
    && for part in bin jars python sbin; do \
        ln --symbolic /opt/penstock/lib/python3.*/site-packages/pyspark/$part /opt/spark/$part; \
    done \
    && useradd --uid 185 --gid 0 --home-dir /home/penstock --no-create-home penstock \
    && chown --recursive 185:0 /opt/spark/work-dir /home/penstock \
    && chmod --recursive g=u /opt/spark/work-dir /home/penstock
ENV PATH=/opt/penstock/bin:$PATH \
    HOME=/home/penstock \
    SPARK_HOME=/opt/spark \
    PYSPARK_PYTHON=/opt/penstock/bin/python \
    PENSTOCK_JARS=/opt/penstock-jars
USER 185
WORKDIR /opt/spark/work-dir
ENTRYPOINT ["tini", "-g", "--", "/opt/entrypoint.sh"]
CMD ["--help"]
