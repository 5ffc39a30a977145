// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
)

const (
	topic    = "work"
	batch    = 500
	patience = 15 * time.Second
)

// The cluster's thread ends when its poll does, whatever the reason, and with it every connection.
func runKafka(until time.Time) (string, error) {
	cluster, err := kafka.NewMockCluster(1)
	if err != nil {
		return "", err
	}
	defer cluster.Close()
	if err := cluster.CreateTopic(topic, 1, 1); err != nil {
		return "", err
	}
	producer, err := kafka.NewProducer(&kafka.ConfigMap{"bootstrap.servers": cluster.BootstrapServers(), "linger.ms": 1})
	if err != nil {
		return "", err
	}
	defer producer.Close()
	consumer, err := kafka.NewConsumer(&kafka.ConfigMap{
		"bootstrap.servers": cluster.BootstrapServers(), "group.id": "readers", "auto.offset.reset": "earliest",
	})
	if err != nil {
		return "", err
	}
	defer consumer.Close()
	if err := consumer.Subscribe(topic, nil); err != nil {
		return "", err
	}
	sent, received := 0, 0
	for time.Now().Before(until) {
		if err := send(producer, batch); err != nil {
			return "", fmt.Errorf("after %d messages: %w", sent, err)
		}
		for sent += batch; received < sent; received++ {
			if _, err := consumer.ReadMessage(patience); err != nil {
				return "", fmt.Errorf("%d messages sent, %d received: %w", sent, received, err)
			}
		}
	}
	return fmt.Sprintf("%d messages sent and received", sent), nil
}

// send waits until the cluster has all of them.
func send(producer *kafka.Producer, messages int) error {
	name, done := topic, make(chan kafka.Event, messages)
	for range messages {
		message := &kafka.Message{TopicPartition: kafka.TopicPartition{Topic: &name, Partition: kafka.PartitionAny}, Value: make([]byte, 1000)}
		if err := producer.Produce(message, done); err != nil {
			return err
		}
	}
	for range messages {
		select {
		case event := <-done:
			if report, ok := event.(*kafka.Message); !ok || report.TopicPartition.Error != nil {
				return fmt.Errorf("not taken: %v", event)
			}
		case <-time.After(patience):
			return fmt.Errorf("not taken within %v: the mock cluster does not answer any more", patience)
		}
	}
	return nil
}
