#!/bin/bash
# Starts what Spark's scheduler for Kubernetes asks for (`driver …`, `executor …`), else `penstock` with the arguments.
set -euo pipefail

# Spark's settings mounted by Kubernetes come first, then those that the pod names.
classpath="${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*"
if [[ -n "${SPARK_EXTRA_CLASSPATH:-}" ]]; then
  classpath+=":$SPARK_EXTRA_CLASSPATH"
fi
if [[ -n "${HADOOP_CONF_DIR:-}" ]]; then
  classpath="$HADOOP_CONF_DIR:$classpath"
fi

case "${1:-}" in
  driver)
    shift
    exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
      --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
  executor)
    # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, … hold one option each.
    options=()
    for ((number = 0; ; number++)); do
      name="SPARK_JAVA_OPT_$number"
      [[ -n "${!name+set}" ]] || break
      options+=("${!name}")
    done
    exec "$JAVA_HOME/bin/java" ${options[@]+"${options[@]}"} \
      "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$classpath" \
      org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
      --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
      --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
      --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
  *)
    exec penstock "$@"
    ;;
esac
